"""Random tables and random settings of every method, and the check of what a fit returns.

Settings are drawn from the declared fields of a method: their types, limits and choices. A number
that costs time (a whole number) stays at most its usual value and `MOST`, so that fits are small.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import math
import time
import typing
import warnings
from typing import Any

import numpy as np
import pandas as pd

import svidag
from odd_columns import BAD, GOOD, frame_of
from soak.cases import CHANGED, DONE, REFUSED, UNCLEAR, Outcome, chance, generator, pick
from soak.clarity import unclear
from svidag.data import DataWarning, Kind
from svidag.graph import are_dags
from svidag.methods.registry import METHODS
from svidag.run.settings import Settings

MOST = 30
"""The largest whole number that is drawn."""
CHANGE = 0.3
"""Share of the settings that differ from the usual ones."""
EXTREME = 0.05
"""Share of the numbers that are drawn that lie at a limit or far from all use."""
ARGUMENTS = tuple(inspect.signature(svidag.fit).parameters)
PRIOR = tuple(inspect.signature(svidag.Prior).parameters)
HOSTILE_NAMES = (
    "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "{{ 7*7 }}", "a\nb", "a\tb", '"', "'", ",",
    ";", "\\", "é", "e\u0301", "\u202eabc", "x" * 300, "../../etc/passwd", "nan", "None", "0", "-1",
    "1e5", "True", "a.b", "a -> b", "$array", "%s", "\x00", "\x1b[31m", "__class__", "🧬",
    "p", "data",
)  # fmt: skip


def draw_settings(method: Settings, rng: np.random.Generator) -> dict[str, Any]:
    """Values for some fields of a method, of the declared types and within the declared limits."""
    hints = typing.get_type_hints(type(method))
    drawn = {}
    for field in dataclasses.fields(method):
        usual = getattr(method, field.name)
        if hints[field.name] is Any:
            continue
        large = isinstance(usual, int) and not isinstance(usual, bool) and usual > MOST
        wide = isinstance(usual, tuple) and any(entry > MOST for entry in usual)
        if large or wide or chance(rng, CHANGE):
            drawn[field.name] = draw_value(hints[field.name], field.metadata, usual, rng)
    return drawn


def draw_value(hint: Any, limits: Any, usual: Any, rng: np.random.Generator) -> Any:
    """A value of a declared type within its limits."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        kept = usual[0] if usual else None
        return tuple(draw_value(inner[0], limits, kept, rng) for _ in range(rng.integers(1, 4)))
    if inner:
        return draw_value(pick(rng, inner), limits, usual, rng)
    if hint is type(None):
        return None
    if hint is bool:
        return chance(rng, 0.5)
    if hint is str:
        return pick(rng, limits["choices"])
    return (_draw_whole if hint is int else _draw_number)(limits, usual, rng)


def _draw_whole(limits: Any, usual: Any, rng: np.random.Generator) -> int:
    least = limits.get("least") or 0
    usual = usual if isinstance(usual, int) else 8
    most = max(least, min(MOST, max(usual, 2), limits.get("most") or MOST))
    return round(math.exp(rng.uniform(math.log(least + 1), math.log(most + 1)))) - 1 or least


def _draw_number(limits: Any, usual: Any, rng: np.random.Generator) -> float:
    least, above, most = (limits.get(name) for name in ("least", "above", "most"))
    centre = abs(usual) if isinstance(usual, int | float) and usual else 1.0
    value = centre * 10 ** rng.uniform(-1.5, 1.5)
    if chance(rng, EXTREME):
        edges = [least, most, centre * 1e6, centre * 1e-6]
        value = pick(rng, [edge for edge in edges if edge is not None])
    low = least if least is not None else above if above is not None else -math.inf
    value = min(max(value, low), math.inf if most is None else most)
    return centre if above is not None and value <= above else float(value)


def draw_names(rng: np.random.Generator, count: int) -> list[str]:
    """Different names, some of them hostile."""
    plain = [f"x{k}" for k in range(count)]
    if chance(rng, 0.5):
        return plain
    return list(map(str, rng.permutation(np.array([*plain, *HOSTILE_NAMES], object))[:count]))


def draw_table(
    rng: np.random.Generator, rows: int, m: int, *, continuous: bool, bad: bool = False
) -> pd.DataFrame:
    """A table whose columns are of any kind, or continuous with effects between them."""
    if continuous:
        x = rng.standard_normal((rows, m))
        for j in range(1, m):
            x[:, j] += x[:, :j] @ (rng.standard_normal(j) * (rng.random(j) < 0.4))
        frame = pd.DataFrame(x * 10 ** rng.uniform(-3, 3, m) + rng.normal(0, 10, m))
    else:
        kinds = [pick(rng, sorted(GOOD)) for _ in range(m)]
        frame = frame_of(kinds, rows, int(rng.integers(2**31)), GOOD)
    if bad:
        kind = pick(rng, sorted(BAD))
        frame = frame_of([kind], rows, int(rng.integers(2**31)), BAD).join(frame.iloc[:, 1:])
    frame.columns = draw_names(rng, m)
    return frame


def draw_arguments(rng: np.random.Generator, method: Any, frame: pd.DataFrame) -> dict[str, Any]:
    """Arguments of `svidag.fit` beside the table and the method, most of them usual."""
    names, support, n = list(frame.columns), method.support, len(frame)
    arguments: dict[str, Any] = {"seed": int(rng.integers(10**6)), "bags": None, "workers": 1}
    if chance(rng, 0.5):
        arguments["mechanism"] = pick(rng, ("auto", *support.mechanisms))
    if chance(rng, 0.3):
        arguments["prior"] = _draw_prior(rng, names)
    if chance(rng, 0.15):
        arguments["interventions"] = pd.DataFrame(rng.random(frame.shape) < 0.2, columns=names)
    if chance(rng, 0.15):
        arguments["environments"] = rng.integers(0, 3, n).tolist()
    if chance(rng, 0.2):
        arguments["graph_weights"] = "structure"
    if chance(rng, 0.1):
        arguments["coarsen"] = float(10 ** rng.uniform(0, 4))
    if chance(rng, 0.1):
        arguments["standardise"] = False
    if chance(rng, 0.1):
        arguments["transforms"] = pick(rng, ("log", "rank-gaussian"))
    if chance(rng, 0.3):
        arguments["missing"] = pick(rng, ("drop", "impute"))
    if chance(rng, 0.1):
        arguments["bags"] = pick(rng, (2, "auto"))
    return arguments


def _draw_prior(rng: np.random.Generator, names: list[str]) -> dict[str, Any]:
    """Arguments of a prior, which may contradict each other."""
    a, b = map(str, rng.permutation(np.array(names, object))[:2])
    stated: dict[str, Any] = {}
    if chance(rng, 0.3):
        stated["p"] = float(rng.uniform(0.05, 0.6))
    if chance(rng, 0.5):
        stated["beliefs"] = {(a, b): float(rng.uniform(0, 1))}
    if chance(rng, 0.3):
        stated[pick(rng, ("required", "forbidden"))] = [(b, a)]
    if chance(rng, 0.2):
        stated["tiers"] = [[a], [name for name in names if name != a]]
    return stated


@dataclasses.dataclass(frozen=True)
class FitSpec:
    """One call of `svidag.fit`; its prior as the arguments of one."""

    frame: pd.DataFrame
    method: Any
    arguments: dict[str, Any]

    def fit(self, **more: Any) -> svidag.Posterior:
        """Make the fit; whatever a library warns of is an error."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for ours in (svidag.FitWarning, DataWarning):
                warnings.simplefilter("ignore", ours)
            # Processes share what JAX compiled; one may read what another has half written.
            warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation")
            arguments = {"progress": False, **self.arguments, **more}
            if "prior" in arguments:
                arguments["prior"] = svidag.Prior(**arguments["prior"])
            return svidag.fit(self.frame, method=self.method, **arguments)

    @property
    def names(self) -> list[str]:
        """What the message of a clear refusal names one of."""
        columns = [repr(name) for name in self.frame.columns]
        return [*columns, *ARGUMENTS, *PRIOR, *self.method.values(), "column", "table", "rows"]


def draw_fit(
    rng: np.random.Generator, name: str, shape: tuple[int, int] | None = None, **fixed: Any
) -> FitSpec:
    """A random fit of a method; `shape` fixes the size of the table, `fixed` some arguments."""
    usual = METHODS[name]
    rows, m = shape or (int(rng.integers(5, 80)), int(rng.integers(2, 6)))
    only = set(usual.support.kinds) == {Kind.CONTINUOUS}
    bad = chance(rng, 0.05)
    frame = draw_table(rng, rows, m, continuous=chance(rng, 0.95 if only else 0.4), bad=bad)
    arguments = draw_arguments(rng, usual, frame) | fixed
    return FitSpec(frame, _draw_method(usual, rng), arguments)


def _draw_method(usual: Any, rng: np.random.Generator) -> Any:
    """The method with other settings that go together."""
    while True:
        try:
            return usual.with_values(draw_settings(usual, rng))
        except ValueError as error:
            if (reason := unclear(error, usual.values())) is not None:
                raise AssertionError(f"a refusal of settings is {reason}") from error


def digest(posterior: svidag.Posterior) -> str:
    """A sum of the arrow probabilities and of some draws, to the bit."""
    p = posterior.edge_probabilities().to_numpy()
    return hashlib.sha256(p.tobytes() + posterior.sample(20, seed=2).tobytes()).hexdigest()


def wrong(spec: FitSpec, posterior: svidag.Posterior) -> str | None:
    """What is wrong with a result, whatever the data were; None if nothing is."""
    p = posterior.edge_probabilities()
    values = p.to_numpy()
    if [str(name) for name in spec.frame.columns] != list(p.index):
        return "names differ from those of the table"
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1 + 1e-9:
        return "arrow probabilities outside 0 … 1"
    if np.diag(values).any():
        return "an arrow from a variable to itself"
    draws = posterior.sample(20, seed=2)
    if spec.method.support.acyclic and not are_dags(draws).all():
        return "a draw with a cycle"
    return None


def attempt(case: str, spec: FitSpec, folder: Any) -> Outcome:
    """Make a fit, check it, save it and load it again."""
    began = time.monotonic()

    def outcome(verdict: str, detail: str = "") -> Outcome:
        counts = {"fits": 1, verdict: 1}
        return Outcome(case, verdict, detail, time.monotonic() - began, counts)

    try:
        posterior = spec.fit()
    except Exception as error:  # noqa: BLE001 — every error is judged
        reason = unclear(error, spec.names)
        return outcome(REFUSED, str(error)[:80]) if reason is None else outcome(UNCLEAR, reason)
    try:
        if (what := wrong(spec, posterior)) is not None:
            return outcome(CHANGED, what)
        loaded = svidag.load(posterior.save(folder / "saved.svidag"))
        if digest(loaded) != digest(posterior):
            return outcome(CHANGED, "loaded differs from saved")
    except Exception as error:  # noqa: BLE001 — a fit that was accepted must be usable
        return outcome(UNCLEAR, unclear(error, ()) or "")
    return outcome(DONE)


def fit_batch(seed: int, case: str, repeats: int) -> list[tuple[str, FitSpec]]:
    """Fits of one method that share their settings and the size of their tables.

    Compiled programs depend on settings and sizes, and take most of the time of small fits.
    """
    name = case.split("/")[1]
    first = draw_fit(generator(seed, case), name)
    specs = [(f"{case}/0", first)]
    for k in range(1, repeats):
        rng = generator(seed, f"{case}/{k}")
        again = draw_fit(rng, name, first.frame.shape)
        mechanism = {
            k: v for k, v in first.arguments.items() if k in ("mechanism", "graph_weights")
        }
        arguments = {**again.arguments, **mechanism}
        specs.append((f"{case}/{k}", FitSpec(again.frame, first.method, arguments)))
    return specs
