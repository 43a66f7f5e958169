"""One regression with flexible scale and noise: the joint mode, and Laplace's evidence around it.

For n rows with location features x_i (q of them), scale features u_i (the first is 1) and

    y_i = wᵀ x_i + exp(η_i) z_i,    η_i = gᵀ u_i,    z_i ~ p(z | β),    σ = exp(g_0),

the prior is that of a conjugate linear regression, with more for what it does not have:

    w | σ ~ N(0, σ² Λ⁻¹),  σ² ~ InvGamma(k, r),  g_1, g_2, … ~ N(0, γ⁻¹),  β ~ N(0, τ² I).

Parameters are kept in one vector θ = (w, g, β). The mode is found by Fisher scoring: with a constant
scale one Gram matrix serves all steps, with a varying one its rows are reweighted. The evidence uses
the observed joint information at the mode, and the expected one where that is not positive definite.
Every row's log likelihood counts `weight` times.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple, no_type_check

import numba
import numpy as np

from svidag.mechanisms.residual_density import basis_slopes, moments, tilt_rows

MOST_STEPS = 40
"""Scoring steps; a fit that has not converged by then counts as failed."""

TOLERANCE = 5e-3
"""Steps end when the next would gain less than this, in units of the log posterior."""

_EXPECTED_STEPS = 3  # with the expected information; the observed one is better near the mode
_HALVINGS = 12  # of a step that does not gain
_LOG_TWO_PI = float(np.log(2 * np.pi))

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


class Regression(NamedTuple):
    """Data and prior of one regression.

    Attributes
    ----------
    x, u, y
        Location features [n, q], scale features [n, p] and the target.
    weight
        How many times every row counts: 1, or less where the likelihood is coarsened.
    precision
        The diagonal of Λ.
    shape, rate
        k and r.
    scale_precision
        γ.
    """

    x: np.ndarray
    u: np.ndarray
    y: np.ndarray
    weight: float
    precision: np.ndarray
    shape: float
    rate: float
    scale_precision: float


class Fit(NamedTuple):
    """The mode and what is known around it.

    Attributes
    ----------
    ok
        Whether the search converged and the information is positive definite.
    theta
        (w, g, β).
    evidence
        Laplace's log evidence.
    factor
        Lower Cholesky factor of the information.
    steps
        Scoring steps taken.
    """

    ok: bool
    theta: np.ndarray
    evidence: float
    factor: np.ndarray
    steps: int


@no_type_check
@_compiled
def cholesky(a):
    """The lower factor, and whether a is positive definite."""
    d = len(a)
    low = np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            s = a[i, j]
            for t in range(j):
                s -= low[i, t] * low[j, t]
            low[i, j] = s / low[j, j]
        s = a[i, i]
        for t in range(i):
            s -= low[i, t] * low[i, t]
        if not s > 1e-13 * abs(a[i, i]):
            return low, False
        low[i, i] = np.sqrt(s)
    return low, True


@no_type_check
@_compiled
def solve(low, b):
    """(L Lᵀ)⁻¹ b."""
    d = len(b)
    x = b.copy()
    for i in range(d):
        for j in range(i):
            x[i] -= low[i, j] * x[j]
        x[i] /= low[i, i]
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            x[i] -= low[j, i] * x[j]
        x[i] /= low[i, i]
    return x


@no_type_check
@_compiled
def gaussian_evidence(gram, cross, own, rows, precision, shape, rate):
    """The exact log evidence with constant scale and normal noise, and the mode of (w, log σ).

    With G, Xᵀy and yᵀy (times the weight of a row) and n rows (times that weight),

        log Γ(k + n/2) − log Γ(k) − (n/2) log 2π + k log r + ½ log|Λ| − ½ log|G + Λ|
        − (k + n/2) log(r + ½ (yᵀy − yᵀX (G + Λ)⁻¹ Xᵀy)).
    """
    q = len(cross)
    low, ok = cholesky(gram + np.diag(precision))
    w = solve(low, cross) if ok else np.zeros(q)
    rest = rate + 0.5 * max(own - cross @ w, 0.0)
    volume = 0.0
    for i in range(q):
        volume += 0.5 * np.log(precision[i]) - np.log(low[i, i])
    value = lgamma(shape + rows / 2) - lgamma(shape) - rows / 2 * _LOG_TWO_PI
    value += shape * np.log(rate) + volume - (shape + rows / 2) * np.log(rest)
    theta = np.empty(q + 1)
    theta[:q] = w
    theta[q] = 0.5 * np.log(2 * rest / (rows + q + 2 * shape))
    return value, theta, ok and np.isfinite(value)


@no_type_check
@_compiled
def _prior(theta, q, p, data, tail_precision):
    """−log prior without its constant, and its gradient."""
    gradient = np.zeros(len(theta))
    w, g = theta[:q], theta[q : q + p]
    inverse = np.exp(-2 * g[0])
    squares = 2 * data.rate
    for i in range(q):
        gradient[i] = inverse * data.precision[i] * w[i]
        squares += data.precision[i] * w[i] ** 2
    value = (q + 2 * data.shape) * g[0] + 0.5 * inverse * squares
    gradient[q] = q + 2 * data.shape - inverse * squares
    for i in range(1, p):
        value += 0.5 * data.scale_precision * g[i] ** 2
        gradient[q + i] = data.scale_precision * g[i]
    for i in range(q + p, len(theta)):
        value += 0.5 * tail_precision * theta[i] ** 2
        gradient[i] = tail_precision * theta[i]
    return value, gradient


@no_type_check
@_compiled
def _add_prior_information(info, theta, q, p, data, tail_precision):
    """Second derivatives of −log prior; the mixed ones of w and log σ included."""
    w, inverse = theta[:q], np.exp(-2 * theta[q])
    squares = 2 * data.rate
    for i in range(q):
        squares += data.precision[i] * w[i] ** 2
        info[i, i] += inverse * data.precision[i]
        info[i, q] -= 2 * inverse * data.precision[i] * w[i]
        info[q, i] = info[i, q]
    info[q, q] += 2 * inverse * squares
    for i in range(1, p):
        info[q + i, q + i] += data.scale_precision
    for i in range(q + p, len(theta)):
        info[i, i] += tail_precision


@no_type_check
@_compiled
def _log_prior_constant(q, p, tails, data, tail_precision):
    """The log normaliser of the prior density of θ."""
    value = np.log(2.0) + data.shape * np.log(data.rate) - lgamma(data.shape)
    value += 0.5 * np.log(data.precision).sum() - 0.5 * (q + p - 1 + tails) * _LOG_TWO_PI
    value += 0.5 * (p - 1) * np.log(data.scale_precision)
    if tails:
        value += 0.5 * tails * np.log(tail_precision)
    return value


class State(NamedTuple):
    """The rows at one θ: −log posterior, its gradient, and ψ, ψ' and the scales behind them."""

    finite: bool
    value: float
    gradient: np.ndarray
    z: np.ndarray
    shrink: np.ndarray
    first: np.ndarray
    second: np.ndarray


@no_type_check
@_compiled
def _evaluate(theta, q, p, data, basis, tail, tail_precision):
    """Residuals, likelihood and gradient at θ; `tail` holds the density's moments there."""
    n, tails = len(data.y), len(theta) - q - p
    z = data.y - data.x @ theta[:q]
    shrink = np.empty(n)
    scale_sum = 0.0
    if p == 1:
        shrink[:] = np.exp(-theta[q])
        scale_sum = n * theta[q]
    else:
        eta = data.u @ theta[q : q + p]
        for i in range(n):
            shrink[i] = np.exp(-eta[i])
            scale_sum += eta[i]
    z *= shrink
    first, second = np.empty(n), np.empty(n)
    value, gradient = _prior(theta, q, p, data, tail_precision)
    if tails:
        sums = np.empty((basis.pieces.shape[0], 4))
        beta = theta[q + p :]
        poly = np.zeros((basis.pieces.shape[0], 4))
        for piece in range(len(poly)):
            for power in range(4):
                poly[piece, power] = basis.pieces[piece, power] @ beta
        likelihood = tilt_rows(z, poly, first, second, sums) - n * tail.log_normaliser
        gradient[q + p :] += data.weight * n * tail.mean
        for piece in range(len(poly)):
            for power in range(4):
                if sums[piece, power] != 0.0:
                    gradient[q + p :] -= (
                        data.weight * sums[piece, power] * basis.pieces[piece, power]
                    )
    else:
        likelihood = -0.5 * (z @ z) - 0.5 * n * _LOG_TWO_PI
        first[:] = -z
        second[:] = -1.0
    value -= data.weight * (likelihood - scale_sum)
    gradient[:q] += data.weight * ((first * shrink) @ data.x)
    if p == 1:
        gradient[q] += data.weight * (n + first @ z)
    else:
        gradient[q : q + p] += data.weight * ((1 + first * z) @ data.u)
    return State(np.isfinite(value), value, gradient, z, shrink, first, second)


@no_type_check
@_compiled
def _weighted(a, weights, b):
    """Aᵀ diag(weights) B."""
    return (a * weights.reshape(-1, 1)).T @ b


@no_type_check
@_compiled
def _expected(theta, q, p, data, grams, tail, shrink, tail_precision):
    """Fisher information of the fitted model, and the prior's."""
    d, n, c = len(theta), len(data.y), data.weight
    info = np.zeros((d, d))
    if p == 1:
        s = shrink[0]
        info[:q, :q] = (c * tail.shift * s * s) * grams[0]
        across = s * grams[1]
    else:
        info[:q, :q] = (c * tail.shift) * _weighted(data.x, shrink**2, data.x)
        across = _weighted(data.x, shrink, data.u)
    info[:q, q : q + p] = (c * tail.mixed) * across
    info[q : q + p, q : q + p] = (c * tail.scale) * grams[2][:p, :p]
    for j in range(d - q - p):
        info[:q, q + p + j] = (c * tail.phi_shift[j]) * across[:, 0]
        info[q : q + p, q + p + j] = (c * tail.phi_scale[j]) * grams[2][0, :p]
        for i in range(d - q - p):
            info[q + p + i, q + p + j] = c * n * tail.covariance[i, j]
    _mirror(info, q, p)
    _add_prior_information(info, theta, q, p, data, tail_precision)
    return info


@no_type_check
@_compiled
def _mirror(info, q, p):
    """Fill what stands below the blocks above the diagonal."""
    for i in range(q + p):
        for j in range(q if i < q else q + p, len(info)):
            info[j, i] = info[i, j]


@no_type_check
@_compiled
def _observed(theta, q, p, data, basis, tail, state, tail_precision):
    """Second derivatives of −log posterior at θ."""
    d, n, c = len(theta), len(data.y), data.weight
    info = np.zeros((d, d))
    z, s, first, second = state.z, state.shrink, state.first, state.second
    u = np.ascontiguousarray(data.u[:, :p])
    info[:q, :q] = _weighted(data.x, -c * second * s * s, data.x)
    info[:q, q : q + p] = _weighted(data.x, -c * (z * second + first) * s, u)
    info[q : q + p, q : q + p] = _weighted(u, -c * z * (z * second + first), u)
    if d > q + p:
        slopes = basis_slopes(z, basis.pieces)
        info[:q, q + p :] = _weighted(data.x, c * s, slopes)
        info[q : q + p, q + p :] = _weighted(u, c * z, slopes)
        info[q + p :, q + p :] = c * n * tail.covariance
    _mirror(info, q, p)
    _add_prior_information(info, theta, q, p, data, tail_precision)
    return info


@no_type_check
@_compiled
def fit(start, data, grams, basis, p, tail_precision):
    """The joint mode from a start, and Laplace's evidence.

    `p` says how many scale features count (1: constant scale); `grams` are XᵀX, Xᵀ1 and UᵀU. The
    start has no β for normal noise.
    """
    q = data.x.shape[1]
    theta = start.copy()
    tails = len(theta) - q - p
    tail = moments(theta[q + p :], basis)
    state = _evaluate(theta, q, p, data, basis, tail, tail_precision)
    failed = Fit(False, theta, -np.inf, np.zeros((1, 1)), 0)
    if not (state.finite and tail.feasible):
        return failed
    converged, steps = False, 0
    while steps < MOST_STEPS and not converged:
        ok = False
        if steps >= _EXPECTED_STEPS:
            info = _observed(theta, q, p, data, basis, tail, state, tail_precision)
            low, ok = cholesky(info)
        if not ok:
            info = _expected(theta, q, p, data, grams, tail, state.shrink, tail_precision)
            low, ok = cholesky(info)
        if not ok:
            return failed
        step = solve(low, state.gradient)
        gain = state.gradient @ step
        if gain < 2 * TOLERANCE:
            converged = True
            break
        size, moved = 1.0, False
        for _ in range(_HALVINGS):
            trial = theta - size * step
            there = moments(trial[q + p :], basis)
            if there.feasible:
                then = _evaluate(trial, q, p, data, basis, there, tail_precision)
                if then.finite and then.value < state.value - 1e-4 * size * gain:
                    theta, tail, state, moved = trial, there, then, True
                    break
            size *= 0.5
        steps += 1
        if not moved:
            break
    low, ok = cholesky(_observed(theta, q, p, data, basis, tail, state, tail_precision))
    value = -state.value
    if ok:
        step = solve(low, state.gradient)
        gain = state.gradient @ step
        converged = converged or gain < 100 * TOLERANCE
        value += 0.5 * min(gain, 0.1)  # what one more step would gain
    else:
        info = _expected(theta, q, p, data, grams, tail, state.shrink, tail_precision)
        low, ok = cholesky(info)
    volume = 0.0
    for i in range(len(low)):
        volume += np.log(low[i, i])
    value += _log_prior_constant(q, p, tails, data, tail_precision)
    value += 0.5 * len(theta) * _LOG_TWO_PI - volume
    return Fit(converged and ok and np.isfinite(value), theta, value, low, steps)
