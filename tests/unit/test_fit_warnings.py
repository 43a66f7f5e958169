"""A fit warns of what makes its result unreliable, and of nothing else."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import svidag
from svidag.methods.base import Method, MethodResult, Support
from svidag.posterior import DrawnGraphs
from svidag.posterior.diagnostics import Level, Reason
from svidag.run.settings import setting
from svidag.run.status import Status

M = 6
GOOD, FAIR = Reason(Level.TRUST, "all is well"), Reason(Level.CAREFUL, "it is rough")
BAD, WORSE = Reason(Level.NOT, "it is wrong"), Reason(Level.NOT, "it is nonsense")


@dataclass(frozen=True)
class Stub(Method):
    """Gives the empty graph, or rarely a chain of all variables, and the given reasons."""

    name: ClassVar[str] = "stub"
    summary: ClassVar[str] = "Computes nothing."
    support: ClassVar[Support] = Support(mechanisms=("linear",))

    reasons: tuple[Reason, ...] = setting((GOOD,), "What it says about itself.")
    rare: float = setting(0.0, "Probability of the chain.", least=0, most=1)

    def run(self, problem, run):
        graphs = np.zeros((2, M, M), dtype=np.uint8)
        graphs[1] = np.eye(M, k=1)
        distribution = DrawnGraphs(graphs, np.array([1 - self.rare, self.rare]))
        return MethodResult(distribution, None, run.mechanism, Status.COMPLETED, self.reasons)

    def identity(self):
        return {"rare": self.rare}


def warnings_of(method, **choices):
    """What a fit warns of, and its posterior."""
    x = np.random.default_rng(0).standard_normal((50, M))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = svidag.fit(x, method=method, progress=False, **choices)
    assert {each.category for each in caught} <= {svidag.FitWarning}
    return [str(each.message) for each in caught], posterior


@pytest.mark.parametrize(
    ("reasons", "warned"),
    [
        ((GOOD,), []),
        ((GOOD, FAIR), []),
        ((BAD,), [BAD.text]),
        ((FAIR, BAD, GOOD, WORSE), [BAD.text, WORSE.text]),
    ],
)
def test_every_reason_not_to_trust_a_fit_is_one_warning(reasons, warned):
    found, posterior = warnings_of(Stub(reasons))
    assert found == warned
    assert posterior.diagnostics.reasons == reasons


def test_draws_that_are_worth_too_little_once_reweighted_are_warned_of():
    # The chain has one order and the empty graph 720, so that few draws carry half the weight.
    (text,), posterior = warnings_of(Stub(rare=0.001), graph_weights="structure")
    effective = posterior.diagnostics.structure_weights.effective_draws
    assert effective < 100
    assert f"leaves {effective:.0f} effective draws, too few" in text
    assert warnings_of(Stub(rare=0.001))[0] == []
    assert warnings_of(Stub(rare=0.5), graph_weights="structure")[0] == []
