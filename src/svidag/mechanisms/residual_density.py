"""A flexible density of noise: the standard normal, tilted by a penalised spline.

With a = asinh z, |z| ≤ c inside the knots, and φ_1, …, φ_K cubic splines in a,

    log p(z | β) = −½ z² + Σ_k β_k φ_k(a) − log Z(β).

Beyond the knots the whole log density goes on as a straight line in a, so that the tails are powers
of |z|, whose exponents κ₋ and κ₊ the data choose; at β = 0 they fall like |z|^(−c√(1 + c²)), which
for c = 4 no table can tell from a normal density. κ < −1 is needed for a density; the normaliser
keeps a fit away from that border.

Constant, shift and scale belong to the regression and not to the noise: every φ_k is orthogonal to
1, z and z² − 1 under N(z). The prior of s = Σ_k β_k φ_k is white noise in s''(a)/cosh 2a, the
change of curvature relative to that of the normal density, with a standard deviation τ; the φ_k are
scaled so that this says β ~ N(0, τ² I).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, no_type_check

import numba
import numpy as np
from jaxtyping import Float
from scipy.interpolate import BSpline
from scipy.special import ndtr

LAST_KNOT = 4.0
"""c: beyond this |z| tails are powers."""

INTERVALS = 16
"""Intervals between knots, all of one width in asinh z. With 10 of them the edge of lognormal noise
is blurred enough to turn arrows at 2000 rows."""

COEFFICIENTS = INTERVALS
"""K: three splines more than intervals, and three constraints."""

_POINTS = 6  # of Gauss–Legendre quadrature in each interval
_EDGE = float(np.arcsinh(LAST_KNOT))
_WIDTH = 2 * _EDGE / INTERVALS
_SLOPE = -LAST_KNOT * float(np.sqrt(1 + LAST_KNOT**2))  # of −½z² in a, at the right edge
_LOWEST = -0.5 * LAST_KNOT**2  # −½z² at both edges
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))
_GRID = np.linspace(-_EDGE - 7.0, _EDGE + 7.0, 2401)  # in a, for quantiles
_LEAST_DECAY = 1.001  # −κ of both tails is kept above it

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


class Basis(NamedTuple):
    """The splines φ_k, as polynomials and at the points of a quadrature.

    Attributes
    ----------
    pieces
        Coefficients of 1, t, t², t³ of every φ_k, with t the distance from the left end of an
        interval in widths; first and last the two tails, where only 1 and t appear and t is the
        distance from the edge.
    z, measure
        Points of the quadrature within the knots, and their weights times exp(−½z²).
    phi, slope
        φ_k and dφ_k/dz at these points.
    edge, edge_slope
        φ_k and dφ_k/da at the left and the right edge.
    """

    pieces: np.ndarray
    z: np.ndarray
    measure: np.ndarray
    phi: np.ndarray
    slope: np.ndarray
    edge: np.ndarray
    edge_slope: np.ndarray


class Moments(NamedTuple):
    """What a fit needs to know of the density at β: all of it expectations.

    Attributes
    ----------
    feasible
        Whether both tails can be normalised; nothing else holds where not.
    log_normaliser
        log Z(β).
    mean, covariance
        Of φ(z).
    informations
        Of shift and scale: E[ψ²], E[ψ (zψ + 1)] and E[(zψ + 1)²] with ψ = d log p/dz.
    phi_shift, phi_scale
        E[dφ_k/dz] and E[z dφ_k/dz]: information shared by β with shift and scale.
    """

    feasible: bool
    log_normaliser: float
    mean: np.ndarray
    covariance: np.ndarray
    informations: np.ndarray
    phi_shift: np.ndarray
    phi_scale: np.ndarray


@cache
def spline_basis() -> Basis:
    """The φ_k: orthogonal to 1, z and z² − 1 under N(z), and scaled so that β ~ N(0, τ² I).

    Examples
    --------
    >>> basis = spline_basis()
    >>> basis.phi.shape
    (96, 16)
    """
    knots = -_EDGE + _WIDTH * np.arange(-3, INTERVALS + 4)
    splines = BSpline(knots, np.eye(INTERVALS + 3), 3)
    node, weight = np.polynomial.legendre.leggauss(_POINTS)
    left = -_EDGE + _WIDTH * np.arange(INTERVALS)
    a = (left[:, None] + _WIDTH * (node + 1) / 2).ravel()
    weight = np.tile(weight * _WIDTH / 2, INTERVALS)
    z = np.sinh(a)
    mixing = _free_splines(splines, a, weight)
    starts = np.concatenate([[-_EDGE], left, [_EDGE]])
    scale = np.cumprod([1.0, *(_WIDTH / np.arange(1, 4))])
    inside = np.clip(starts, -_EDGE, _EDGE - 1e-12)
    pieces = np.stack([splines(inside, nu) @ mixing * scale[nu] for nu in range(4)], axis=1)
    pieces[[0, -1], 2:] = 0.0
    edges = np.array([-_EDGE, _EDGE])
    cosh = np.cosh(a)
    return Basis(
        pieces,
        z,
        weight * cosh * np.exp(-0.5 * z**2),
        splines(a) @ mixing,
        splines(a, 1) @ mixing / cosh[:, None],
        splines(edges) @ mixing,
        splines(edges, 1) @ mixing,
    )


def _free_splines(splines: BSpline, a: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Combinations of B-splines without constant, shift and scale, white under the prior."""
    further = np.arcsinh(LAST_KNOT + 6 * (np.polynomial.legendre.leggauss(40)[0] + 1) / 2)
    gauss = 3 * np.polynomial.legendre.leggauss(40)[1]
    tail = splines(_EDGE) + np.outer(further - _EDGE, splines(_EDGE, 1))
    mirrored = tail[:, ::-1]  # the knots are symmetric
    z = np.concatenate([np.sinh(a), np.sinh(further), -np.sinh(further)])
    values = np.concatenate([splines(a), tail, mirrored])
    measure = np.concatenate([weight * np.cosh(a), gauss, gauss]) * np.exp(-0.5 * z**2)
    constraints = np.stack([np.ones_like(z), z, z**2 - 1]) * measure @ values
    free = np.linalg.svd(constraints)[2][3:].T
    bend = splines(a, 2) @ free / np.cosh(2 * a)[:, None]
    penalty = (bend * weight[:, None]).T @ bend
    return free @ np.linalg.inv(np.linalg.cholesky(penalty)).T


@no_type_check
@_compiled
def tail_sums(decay, edge):
    """∫ t^n exp(−decay t) cosh(edge + t) dt over t > 0, for n = 0, 1, 2."""
    grow, fall = 0.5 * np.exp(edge), 0.5 * np.exp(-edge)
    slow, fast = 1 / (decay - 1), 1 / (decay + 1)
    return (
        grow * slow + fall * fast,
        grow * slow**2 + fall * fast**2,
        2 * (grow * slow**3 + fall * fast**3),
    )


@no_type_check
@_compiled
def dot(a, b):
    """Σ a_i b_i; numba takes seconds to compile NumPy's."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@no_type_check
@_compiled
def moments(beta, basis):
    """Normaliser, mean and covariance of φ, and Fisher informations; integrals by quadrature.

    The tails of Z, of the mean and of the covariance are exact; those of the informations take
    cosh a = ½ e^|a|, which is right to a thousandth beyond the knots.
    """
    k = len(beta)
    mean, cov = np.zeros(k), np.zeros((k, k))
    phi_shift, phi_scale = np.zeros(k), np.zeros(k)
    informations = np.array([1.0, 0.0, 2.0])
    if k == 0:  # the standard normal
        return Moments(True, _HALF_LOG_TWO_PI, mean, cov, informations, phi_shift, phi_scale)
    points = len(basis.z)
    density = np.empty(points)
    total, feasible = 0.0, True
    for i in range(points):
        density[i] = basis.measure[i] * np.exp(dot(basis.phi[i], beta))
        total += density[i]
    for side in range(2):
        decay = -_SLOPE - (2.0 * side - 1.0) * dot(basis.edge_slope[side], beta)
        feasible = feasible and decay > _LEAST_DECAY
        height = np.exp(_LOWEST + dot(basis.edge[side], beta))
        total += height * tail_sums(decay, _EDGE)[0]
    if not (feasible and np.isfinite(total)):
        return Moments(False, 0.0, mean, cov, informations, phi_shift, phi_scale)
    informations[:] = 0.0
    for i in range(points):
        share, z = density[i] / total, basis.z[i]
        score = dot(basis.slope[i], beta) - z
        moved = z * score + 1
        informations[0] += share * score * score
        informations[1] += share * score * moved
        informations[2] += share * moved * moved
        for j in range(k):
            phi_shift[j] += share * basis.slope[i, j]
            phi_scale[j] += share * z * basis.slope[i, j]
            weighted = share * basis.phi[i, j]
            mean[j] += weighted
            for t in range(k):
                cov[j, t] += weighted * basis.phi[i, t]
    for side in range(2):
        _add_tail(side, beta, basis, total, mean, cov, informations, phi_shift, phi_scale)
    for i in range(k):
        for j in range(k):
            cov[i, j] -= mean[i] * mean[j]
    return Moments(True, np.log(total), mean, cov, informations, phi_shift, phi_scale)


@no_type_check
@_compiled
def _add_tail(side, beta, basis, total, mean, cov, informations, phi_shift, phi_scale):
    """What one tail adds to second moments of φ and to the informations.

    On the right ψ = −decay/cosh a and zψ = −decay tanh a; mirrored on the left.
    """
    sign, k = 2.0 * side - 1.0, len(beta)
    edge, slope = basis.edge[side], basis.edge_slope[side]
    decay = -_SLOPE - sign * dot(slope, beta)
    height = np.exp(_LOWEST + dot(edge, beta)) / total
    zero, one, two = tail_sums(decay, _EDGE)
    over = height * 2 * np.exp(-_EDGE) / (decay + 1)  # E[1/cosh² a]
    plain = height / decay  # E[1/cosh a]
    informations[0] += decay**2 * over
    informations[1] += sign * (decay - 1) * decay * plain
    informations[2] += (decay - 1) ** 2 * height * zero
    for i in range(k):
        own = sign * slope[i]
        mean[i] += height * (zero * edge[i] + one * own)
        phi_shift[i] += slope[i] * plain
        phi_scale[i] += own * height * zero
        for j in range(k):
            other = sign * slope[j]
            both = edge[i] * other + own * edge[j]
            cov[i, j] += height * (zero * edge[i] * edge[j] + one * both + two * own * other)


@no_type_check
@_compiled
def _piece(a, last):
    """The piece of the polynomials in which a lies, and how far from its start, in widths."""
    if a >= _EDGE:
        return last, (a - _EDGE) / _WIDTH
    if a <= -_EDGE:
        return 0, (a + _EDGE) / _WIDTH
    position = (a + _EDGE) / _WIDTH
    piece = min(int(position), last - 2)
    return piece + 1, position - piece


@no_type_check
@_compiled
def tilt_rows(z, poly, first, second, sums):
    """Σ log p(z) + log Z, and ψ and ψ' of every row; `sums` gets Σ t^p of every piece.

    `poly` holds the polynomials of s, as `pieces` those of the φ_k.
    """
    total = 0.0
    last = len(poly) - 1
    for i in range(len(z)):
        x = z[i]
        root = np.sqrt(1 + x * x)
        a = np.log(abs(x) + root)
        a = a if x >= 0 else -a
        da = 1 / root
        piece, t = _piece(a, last)
        p0, p1, p2, p3 = poly[piece, 0], poly[piece, 1], poly[piece, 2], poly[piece, 3]
        s = p0 + t * (p1 + t * (p2 + t * p3))
        ds = (p1 + t * (2 * p2 + t * 3 * p3)) / _WIDTH
        sums[piece, 0] += 1.0
        sums[piece, 1] += t
        if piece == 0 or piece == last:
            slope = _SLOPE if piece == last else -_SLOPE
            total += _LOWEST + slope * t * _WIDTH + s
            first[i] = (slope + ds) * da
            second[i] = -(slope + ds) * x * da**3
        else:
            dds = (2 * p2 + t * 6 * p3) / _WIDTH**2
            sums[piece, 2] += t * t
            sums[piece, 3] += t * t * t
            total += s - 0.5 * x * x
            first[i] = ds * da - x
            second[i] = dds * da * da - ds * x * da**3 - 1.0
    return total


@no_type_check
@_compiled
def basis_slopes(z, pieces):
    """dφ_k/dz of every row."""
    last, k = pieces.shape[0] - 1, pieces.shape[2]
    slopes = np.empty((len(z), k))
    for i in range(len(z)):
        a = np.arcsinh(z[i])
        piece, t = _piece(a, last)
        over = 1 / (_WIDTH * np.sqrt(1 + z[i] ** 2))
        for j in range(k):
            p1, p2, p3 = pieces[piece, 1, j], pieces[piece, 2, j], pieces[piece, 3, j]
            slopes[i, j] = (p1 + t * (2 * p2 + t * 3 * p3)) * over
    return slopes


@dataclass(frozen=True, eq=False)
class TiltedDensity:
    """p(z | β), to evaluate, to integrate and to draw from.

    Attributes
    ----------
    beta
        The coefficients; all zero, or none at all, for the standard normal.

    Examples
    --------
    >>> import numpy as np
    >>> density = TiltedDensity(np.zeros(COEFFICIENTS))
    >>> density.log_density(np.zeros(1)).round(3).tolist()
    [-0.919]
    >>> density.quantile(np.array([0.5, 0.975])).round(2).tolist()
    [0.0, 1.96]
    """

    beta: Float[np.ndarray, " K"]

    def log_density(self, z: Float[np.ndarray, "*rows"]) -> Float[np.ndarray, "*rows"]:
        """log p(z)."""
        if not self.beta.any():
            return -0.5 * z**2 - _HALF_LOG_TWO_PI
        a = np.arcsinh(z)
        inside = np.clip(a, -_EDGE, _EDGE)
        position = (inside + _EDGE) / _WIDTH
        piece = np.minimum(position.astype(np.int64), INTERVALS - 1)
        t = position - piece
        p0, p1, p2, p3 = np.moveaxis((spline_basis().pieces @ self.beta)[piece + 1], -1, 0)
        tilt = p0 + t * (p1 + t * (p2 + t * p3)) - self._log_normaliser
        decay = np.where(a > 0, self.decays[1], self.decays[0])
        return tilt - 0.5 * np.sinh(inside) ** 2 - decay * (np.abs(a) - np.abs(inside))

    @cached_property
    def _log_normaliser(self) -> float:
        return float(moments(self.beta, spline_basis()).log_normaliser)

    @cached_property
    def decays(self) -> tuple[float, float]:
        """−κ: how fast the left and the right tail fall, as powers of |z|.

        A mean exists where both are above 2, a variance where they are above 3.
        """
        left, right = spline_basis().edge_slope @ self.beta
        return float(-_SLOPE + left), float(-_SLOPE - right)

    @cached_property
    def _below(self) -> Float[np.ndarray, " points"]:
        """The probability below every point of the grid; next to none lies beyond it."""
        density = np.exp(self.log_density(np.sinh(_GRID))) * np.cosh(_GRID)
        below = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
        return below / below[-1]

    def quantile(self, probability: Float[np.ndarray, "*rows"]) -> Float[np.ndarray, "*rows"]:
        """z with so much probability below it."""
        return np.sinh(np.interp(probability, self._below, _GRID))

    def from_normal(self, normal: Float[np.ndarray, "*rows"]) -> Float[np.ndarray, "*rows"]:
        """z from standard normal noise, by its quantiles: the same units, another density."""
        return self.quantile(ndtr(normal)) if self.beta.any() else normal

    @cached_property
    def mean(self) -> float:
        """E[z]; cut at |z| of about 4000 where the tails are too heavy for a mean."""
        if not self.beta.any():
            return 0.0
        middle = np.sinh(0.5 * (_GRID[1:] + _GRID[:-1]))
        return float(middle @ np.diff(self._below))
