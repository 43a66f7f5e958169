"""The README's example in Python runs with every method that `svidag methods` lists."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import svidag
from svidag.methods import METHODS

README = Path(__file__).parents[2] / "README.md"
PRIOR = {"beliefs": "beliefs", "required": "hard_knowledge", "tiers": "hard_knowledge"}
"""What the example states, and what a method declares if it can take that."""


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_the_example_runs_with_each_name(name, tmp_path, monkeypatch):
    """With settings of seconds, and without what the method refuses."""
    monkeypatch.chdir(tmp_path)
    method = METHODS[name]
    if name != "order-mcmc":  # which sums so small a table exactly, and sooner than it samples
        method = method.with_values(method.trial)
    support = method.support
    fit = svidag.fit

    def fit_with(data, *, prior, mechanism):
        refused = [stated for stated, what in PRIOR.items() if not getattr(support, what)]
        if refused:  # as it stands it is refused, with the reason and a method that can
            with pytest.raises(ValueError, match=rf"'{name}' does not support .*order-mcmc"):
                fit(data, prior=prior, method=method, progress=False)
            usual = svidag.Prior()
            prior = replace(prior, **{stated: getattr(usual, stated) for stated in refused})
        chosen = mechanism if mechanism in support.mechanisms else "auto"
        return fit(data, prior=prior, method=method, mechanism=chosen, progress=False)

    monkeypatch.setattr(svidag, "fit", fit_with)
    (example,) = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)
    namespace = {}
    for statement in ast.parse(example).body:
        code = compile(ast.Module([statement], []), str(README), "exec")
        if ".effect(" in ast.unparse(statement) and namespace["posterior"].mechanisms is None:
            with pytest.raises(ValueError, match="over graphs alone"):
                exec(code, namespace)
        else:
            exec(code, namespace)
    assert (tmp_path / "report.html").exists()
