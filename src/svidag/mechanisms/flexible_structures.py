"""The structures of one family: which are fitted, from where, and what they weigh together.

A structure is a location (linear or network), a scale (constant or varying) and a noise (normal, or
tilted with one of three prior scales τ). Structures that cannot matter are not fitted: evidences of
neighbouring structures predict theirs, and what is predicted far below the best is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import gammaln

from svidag.mechanisms.flexible_fit import Fit, Regression, evaluate, fit
from svidag.mechanisms.residual_density import COEFFICIENTS, moments, spline_basis

TAIL_SCALES = (1.0, 3.0, 10.0)
"""Prior standard deviations τ of the density's coefficients; normal noise is the fourth choice."""

REACH = 30.0
"""A structure is left out when others with one choice in common put it so far below the best."""

WIDE = 20.0
"""The same for a varying scale under a network, which a linear location tells more reliably."""

CLOSE = 12.0
"""A prior scale is left out when the fit with another puts it so far below the best."""

FALLING = 6.0
"""The same when the fits with two others do, if evidence goes on as it does between them."""

FEWEST_ROWS = 10
"""With fewer rows only the plainest scale and noise count."""


@dataclass(frozen=True)
class Structure:
    """One choice of location, scale and noise for a family, with its fit.

    Attributes
    ----------
    location
        ``"linear"`` or ``"network"``.
    varying
        Whether the scale varies with the parents.
    tail
        The prior scale τ of the density, or 0 for normal noise.
    precision
        λ of hidden weights; 0 for a linear location.
    evidence
        Its log evidence.
    fit
        The joint mode and the information there.
    linear_part
        What is taken out of hidden units: their regression on (x_S, 1); None without such units.
    rotation
        The axes of hidden units that have weights.
    """

    location: str
    varying: bool
    tail: float
    precision: float
    evidence: float
    fit: Fit
    linear_part: Float[np.ndarray, "inputs units"] | None = None
    rotation: Float[np.ndarray, "units axes"] | None = None


@dataclass(frozen=True)
class Family:
    """All structures of a node and a parent set that count, and how their fits went.

    Attributes
    ----------
    structures
        The structures that were fitted, the plainest first.
    locations
        How many locations were allowed.
    fits, failures
        Fits tried, and those among them that did not converge. A failed fit counts with the
        evidence of where it ended, which is too low, or not at all where there is none.
    """

    structures: tuple[Structure, ...]
    locations: int
    fits: int
    failures: int

    @property
    def evidence(self) -> float:
        """f_j(S): the average over structures, or that of the plainest if it is higher.

        First over the noises of every location and scale, where normal noise is the plainest, and
        then over locations and scales, where the linear location with constant scale is.
        """
        groups: dict[tuple[str, bool], dict[float, float]] = {}
        for each in self.structures:
            groups.setdefault((each.location, each.varying), {})[each.tail] = each.evidence
        over_noises = {
            key: _average(noises, 0.0, 1 + len(TAIL_SCALES)) for key, noises in groups.items()
        }
        return _average(over_noises, ("linear", False), 2 * self.locations)

    @property
    def shares(self) -> Float[np.ndarray, " structures"]:
        """The posterior probabilities of the structures, equally likely beforehand."""
        evidences = np.array([each.evidence for each in self.structures])
        return np.exp(evidences - np.logaddexp.reduce(evidences))


def _average(evidences: dict[Any, float], plainest: Any, choices: int) -> float:
    """The log of the mean of so many evidences, or that of the plainest choice if it is higher."""
    mean = np.logaddexp.reduce(list(evidences.values())) - np.log(choices)
    return float(max(mean, evidences.get(plainest, -np.inf)))


def exact_evidence(data: Regression) -> tuple[float, Float[np.ndarray, " mode"]]:
    """The exact log evidence with constant scale and normal noise, and the mode of (w, log σ).

    With G = XᵀX, Xᵀy, yᵀy and n all times the weight of a row,

        log Γ(k + n/2) − log Γ(k) − (n/2) log 2π + k log r + ½ log|Λ| − ½ log|G + Λ|
        − (k + n/2) log(r + ½ (yᵀy − yᵀX (G + Λ)⁻¹ Xᵀy)).
    """
    c, k, q = data.weight, data.shape, data.x.shape[1]
    n = c * len(data.y)
    factor = np.linalg.cholesky(c * (data.x.T @ data.x) + np.diag(data.precision))
    whitened = solve_triangular(factor, c * (data.y @ data.x), lower=True, check_finite=False)
    w = solve_triangular(factor, whitened, lower=True, trans=1, check_finite=False)
    rest = data.rate + 0.5 * max(c * float(data.y @ data.y) - float(whitened @ whitened), 0.0)
    volume = 0.5 * np.log(data.precision).sum() - np.log(np.diag(factor)).sum()
    value = gammaln(k + n / 2) - gammaln(k) - n / 2 * np.log(2 * np.pi)
    value += k * np.log(data.rate) + volume - (k + n / 2) * np.log(rest)
    return float(value), np.append(w, 0.5 * np.log(2 * rest / (n + q + 2 * k)))


def other_prior(found: Fit, tail: float, other: float) -> tuple[float, np.ndarray]:
    """Evidence and mode with another prior scale, from the quadratic around this mode.

    With δ = 1/τ'² − 1/τ² the information becomes H + δ I_β and the gradient δβ.
    """
    delta, k, beta = other**-2 - tail**-2, COEFFICIENTS, found.theta[-COEFFICIENTS:]
    information = found.factor @ found.factor.T
    information[np.arange(-k, 0), np.arange(-k, 0)] += delta
    gradient = np.zeros(len(found.theta))
    gradient[-k:] = delta * beta
    try:
        factor = np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        return np.inf, found.theta
    step = cho_solve((factor, True), gradient, check_finite=False)
    value = found.evidence - 0.5 * delta * float(beta @ beta) + 0.5 * float(gradient @ step)
    value += k * np.log(tail / other)
    value -= float(np.log(np.diag(factor)).sum() - np.log(np.diag(found.factor)).sum())
    return value, found.theta - step


@dataclass
class Search:
    """The structures of one location, fitted one after the other.

    Attributes
    ----------
    location, precision
        As in `Structure`.
    data
        The regression.
    added
        Counts for all evidences of this location.
    others
        Structures of other locations, fitted before.
    linear_part, rotation
        As in `Structure`.
    """

    location: str
    precision: float
    data: Regression
    added: float = 0.0
    others: tuple[Structure, ...] = ()
    linear_part: np.ndarray | None = None
    rotation: np.ndarray | None = None
    found: list[Structure] = field(default_factory=list)
    fits: int = 0
    failures: int = 0

    def run(self) -> None:
        """Fit normal noise, then tilted noise, first with constant and then with varying scale."""
        x, u = self.data.x, self.data.u
        self._grams = (x.T @ x, x.sum(axis=0), u.T @ u)
        value, mode = exact_evidence(self.data)
        exact = value + self.added
        normal = fit(mode, self.data, self._grams, spline_basis(), 1, 1.0)
        self._keep(False, 0.0, exact, normal)
        if len(self.data.y) < FEWEST_ROWS:
            return
        if not normal.ok:  # nothing to compare others with: the exact evidence alone counts
            self.fits, self.failures = 1, 1
            return
        self._level = exact - normal.evidence
        beta = np.zeros(COEFFICIENTS)
        tilted = self._tilted(np.concatenate([mode, beta]), 1)
        p = u.shape[1]
        if p == 1 or not self._scale_may_vary():
            return
        varying = self._attempt([np.concatenate([mode, np.zeros(p - 1)])], p, 0.0)
        if self._promising():
            q = x.shape[1]
            constant = np.concatenate([tilted[: q + 1], np.zeros(p - 1), tilted[q + 1 :]])
            starts = [constant, np.concatenate([varying.theta, beta])]
            self._tilted(min(starts, key=lambda start: self._height(start, p)), p)

    @property
    def best(self) -> float:
        """The highest evidence so far."""
        return max(each.evidence for each in (*self.others, *self.found))

    def _tilted(self, start: np.ndarray, p: int) -> np.ndarray:
        """Fit all prior scales of tilted noise that matter; the mode of the first.

        The quadratic around one mode says where the next is, and whether it matters, only while
        the density is nearly normal.
        """
        nearly_normal = self.found[-1].evidence + CLOSE
        first = self._attempt([start], p, TAIL_SCALES[0])
        before, tail = first, TAIL_SCALES[0]
        evidences = [first.evidence] if first.ok else []
        for other in TAIL_SCALES[1:]:
            starts, matters = [before.theta, start], self._next_matters(evidences)
            if before.ok and before.evidence + self._level < nearly_normal:
                value, mode = other_prior(before, tail, other)
                starts = [mode, *starts]
                matters = matters and value + self._level > self.best - CLOSE
            if matters:
                found = self._attempt(starts, p, other)
                if found.ok:
                    before, tail = found, other
                    evidences.append(found.evidence)
        return first.theta if first.ok else start

    def _next_matters(self, evidences: list[float]) -> bool:
        """Whether the next prior scale may matter, by the evidences with the scales before it.

        Evidence is nearly concave in log τ, where the scales are equally far apart.
        """
        if len(evidences) == 1:
            return evidences[0] + self._level > self.best - REACH
        if len(evidences) == 2:
            return 2 * evidences[1] - evidences[0] + self._level > self.best - FALLING
        return True

    def _attempt(self, starts: list[np.ndarray], p: int, tail: float) -> Fit:
        """Fit from the first start, and from the next ones while that fails."""
        precision, best = tail**-2 if tail else 1.0, None
        for start in starts:
            result = fit(start, self.data, self._grams, spline_basis(), p, precision)
            if best is None or result.ok or result.evidence > best.evidence:
                best = result
            if result.ok:
                break
        assert best is not None
        self.fits += 1
        self.failures += not best.ok
        if np.isfinite(best.evidence):
            self._keep(p > 1, tail, best.evidence + self._level, best)
        return best

    def _keep(self, varying: bool, tail: float, evidence: float, fitted: Fit) -> None:
        place = self.location, varying, tail, self.precision
        self.found.append(Structure(*place, evidence, fitted, self.linear_part, self.rotation))

    def _height(self, theta: np.ndarray, p: int) -> float:
        """−log posterior at a start."""
        basis, q = spline_basis(), self.data.x.shape[1]
        tail = moments(theta[q + p :], basis)
        return evaluate(theta, q, p, self.data, basis, tail, TAIL_SCALES[0] ** -2).value

    def _scale_may_vary(self) -> bool:
        """Whether a varying scale comes within reach if it gains what it gains elsewhere."""
        varying = [each.evidence for each in self.others if each.varying]
        constant = [each.evidence for each in self.others if not each.varying]
        if not varying or not constant:
            return True
        own = max(each.evidence for each in self.found)
        return own + max(varying) - max(constant) > self.best - WIDE

    def _promising(self) -> bool:
        """Whether the gains of varying scale and of tilted noise, added up, come within reach."""
        scale = [each.evidence for each in self.found if each.varying and not each.tail]
        noise = [each.evidence for each in self.found if not each.varying and each.tail]
        if not scale or not noise:
            return True
        return max(scale) + max(noise) - self.found[0].evidence > self.best - REACH
