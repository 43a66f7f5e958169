"""One regression with flexible scale and noise: the joint mode, and Laplace's evidence around it.

For n rows with location features x_i (q of them), scale features u_i (the first is 1) and

    y_i = wᵀ x_i + exp(η_i) z_i,    η_i = g_0 + s(h_i),    z_i ~ p(z | β),    σ = exp(g_0),

with h_i = g_1 u_i1 + g_2 u_i2 + … and s(h) = log((exp h + ε)/(1 + ε)): a scale may grow without
bound, but not fall below ε σ. Without that floor it would run to zero at a single far-out row that
the location passes through. The prior is that of a conjugate linear regression, with more for what
it does not have:

    w | σ ~ N(0, σ² Λ⁻¹),  σ² ~ InvGamma(k, r),  g_1, g_2, … ~ N(0, γ⁻¹),  β ~ N(0, τ² I).

Parameters are kept in one vector θ = (w, g, β). The mode is found by Fisher scoring, and by
Newton's method once near: with a constant scale one Gram matrix serves all steps, with a varying
one its rows are reweighted. The evidence uses the observed joint information at the mode, and the
expected one where that is not positive definite. Every row's log likelihood counts `weight` times.
"""

from __future__ import annotations

from math import lgamma
from typing import NamedTuple, no_type_check

import numba
import numpy as np

from svidag.mechanisms.residual_density import basis_slopes, dot, moments, tilt_rows

MOST_STEPS = 40
"""Scoring steps; a fit that has not converged by then counts as failed."""

TOLERANCE = 5e-3
"""Steps end when the next would gain less than this, in units of the log posterior."""

_EXPECTED_STEPS = 3  # with the expected information; the observed one is better near the mode
_SHARES = (0.3, 1.0)  # of the expected information, added where the observed is indefinite
_STEEP = 0.7  # a step that gains this share of a straight line's gain may be too short
_HALVINGS = 12  # of a step that does not gain
_LOG_TWO_PI = float(np.log(2 * np.pi))

SCALE_FLOOR = 0.02
"""ε: the least scale, relative to that where h is 0."""

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


class Regression(NamedTuple):
    """Data and prior of one regression; arrays are contiguous by rows.

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
    """The lower factor of a, which is read above its diagonal, and whether there is one."""
    d = len(a)
    low = np.zeros((d, d))
    for i in range(d):
        for j in range(i):
            s = a[j, i]
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
def _prior(theta, q, p, data, tail_precision, gradient):
    """−log prior without its constant; its gradient goes into `gradient`."""
    inverse = np.exp(-2 * theta[q])
    squares = 2 * data.rate
    for i in range(q):
        gradient[i] = inverse * data.precision[i] * theta[i]
        squares += data.precision[i] * theta[i] ** 2
    value = (q + 2 * data.shape) * theta[q] + 0.5 * inverse * squares
    gradient[q] = q + 2 * data.shape - inverse * squares
    for i in range(q + 1, len(theta)):
        precision = data.scale_precision if i < q + p else tail_precision
        value += 0.5 * precision * theta[i] ** 2
        gradient[i] = precision * theta[i]
    return value


@no_type_check
@_compiled
def _add_prior_information(info, theta, q, p, data, tail_precision):
    """Second derivatives of −log prior; the mixed ones of w and log σ included."""
    inverse = np.exp(-2 * theta[q])
    squares = 2 * data.rate
    for i in range(q):
        squares += data.precision[i] * theta[i] ** 2
        info[i, i] += inverse * data.precision[i]
        info[i, q] -= 2 * inverse * data.precision[i] * theta[i]
    info[q, q] += 2 * inverse * squares
    for i in range(1, p):
        info[q + i, q + i] += data.scale_precision
    for i in range(q + p, len(theta)):
        info[i, i] += tail_precision


@no_type_check
@_compiled
def log_prior_constant(q, p, tails, data, tail_precision):
    """The log normaliser of the prior density of θ."""
    value = np.log(2.0) + data.shape * np.log(data.rate) - lgamma(data.shape)
    value -= 0.5 * (q + p - 1 + tails) * _LOG_TWO_PI
    for i in range(q):
        value += 0.5 * np.log(data.precision[i])
    value += 0.5 * (p - 1) * np.log(data.scale_precision)
    if tails:
        value += 0.5 * tails * np.log(tail_precision)
    return value


class State(NamedTuple):
    """The rows at one θ: −log posterior, its gradient, ψ, ψ', and exp(−η) and s'(h) behind them."""

    finite: bool
    value: float
    gradient: np.ndarray
    z: np.ndarray
    shrink: np.ndarray
    bend: np.ndarray
    first: np.ndarray
    second: np.ndarray


@no_type_check
@_compiled
def _residuals(theta, q, p, data, z, shrink, bend):
    """z_i, exp(−η_i) and s'(h_i) of every row; Σ η_i."""
    total = 0.0
    for n in range(len(data.y)):
        left, h, eta = data.y[n], 0.0, theta[q]
        for i in range(q):
            left -= data.x[n, i] * theta[i]
        for i in range(1, p):
            h += data.u[n, i] * theta[q + i]
        bend[n] = 1.0
        if p > 1:
            over = SCALE_FLOOR * np.exp(-h)
            eta += h + np.log1p(over) - np.log1p(SCALE_FLOOR)
            bend[n] = 1 / (1 + over)
        shrink[n] = np.exp(-eta)
        z[n] = left * shrink[n]
        total += eta
    return total


@no_type_check
@_compiled
def _density(z, beta, basis, tail, weight, first, second, gradient):
    """Σ log p(z_i | β), with ψ and ψ' of every row; `gradient` loses that of β."""
    n, tails = len(z), len(beta)
    if tails == 0:
        total = 0.0
        for i in range(n):
            first[i], second[i] = -z[i], -1.0
            total -= 0.5 * z[i] * z[i]
        return total - 0.5 * n * _LOG_TWO_PI
    pieces = basis.pieces
    poly, sums = np.zeros((len(pieces), 4)), np.zeros((len(pieces), 4))
    for piece in range(len(pieces)):
        for power in range(4):
            poly[piece, power] = dot(pieces[piece, power], beta)
    total = tilt_rows(z, poly, first, second, sums) - n * tail.log_normaliser
    for k in range(tails):
        own = n * tail.mean[k]
        for piece in range(len(pieces)):
            for power in range(4):
                own -= sums[piece, power] * pieces[piece, power, k]
        gradient[k] += weight * own
    return total


@no_type_check
@_compiled
def evaluate(theta, q, p, data, basis, tail, tail_precision):
    """Residuals, likelihood and gradient at θ; `tail` holds the density's moments there."""
    n, c = len(data.y), data.weight
    z, shrink, first, second = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    bend = np.empty(n)
    gradient = np.empty(len(theta))
    value = _prior(theta, q, p, data, tail_precision, gradient)
    eta = _residuals(theta, q, p, data, z, shrink, bend)
    split = q + p
    density = _density(z, theta[split:], basis, tail, c, first, second, gradient[split:])
    for i in range(n):
        score, moved = c * first[i] * shrink[i], c * (1 + first[i] * z[i])
        for j in range(q):
            gradient[j] += score * data.x[i, j]
        gradient[q] += moved
        for j in range(1, p):
            gradient[q + j] += moved * bend[i] * data.u[i, j]
    value -= c * (density - eta)
    return State(np.isfinite(value), value, gradient, z, shrink, bend, first, second)


@no_type_check
@_compiled
def _add_products(info, at, a, weights, b):
    """Add Σ_n weights_n a_n b_nᵀ where `at` says."""
    weighted = np.empty(a.shape)
    for n in range(len(weights)):
        for i in range(a.shape[1]):
            weighted[n, i] = weights[n] * a[n, i]
    products = weighted.T @ b
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            info[at[0] + i, at[1] + j] += products[i, j]


@no_type_check
@_compiled
def _scale_slopes(data, p, bend):
    """dη_i/dg of every row."""
    slopes = np.ones((len(bend), p))
    for i in range(len(bend)):
        for j in range(1, p):
            slopes[i, j] = bend[i] * data.u[i, j]
    return slopes


@no_type_check
@_compiled
def _expected(theta, q, p, data, grams, tail, state, tail_precision):
    """Fisher information of the fitted model and of the prior, above the diagonal."""
    d, n, c = len(theta), len(data.y), data.weight
    shrink, products = state.shrink, grams[2]
    shift, mixed, scale = tail.informations
    info, sums = np.zeros((d, d)), np.zeros(q)
    if p == 1:
        s = shrink[0]
        for i in range(q):
            sums[i] = c * s * grams[1][i]
            info[i, q] = mixed * sums[i]
            for j in range(i, q):
                info[i, j] = c * shift * s * s * grams[0][i, j]
    else:
        weights, doubled = np.empty(n), np.empty(n)
        for i in range(n):
            weights[i], doubled[i] = c * mixed * shrink[i], c * shift * shrink[i] ** 2
            for j in range(q):
                sums[j] += c * shrink[i] * data.x[i, j]
        _add_products(info, (0, 0), data.x, doubled, data.x)
        u = _scale_slopes(data, p, state.bend)
        _add_products(info, (0, q), data.x, weights, u)
        products = u.T @ u
    for i in range(p):
        for j in range(i, p):
            info[q + i, q + j] = c * scale * products[i, j]
    for j in range(d - q - p):
        for i in range(q):
            info[i, q + p + j] = tail.phi_shift[j] * sums[i]
        for i in range(p):
            info[q + i, q + p + j] = c * tail.phi_scale[j] * products[0, i]
        for i in range(j + 1):
            info[q + p + i, q + p + j] = c * n * tail.covariance[i, j]
    _add_prior_information(info, theta, q, p, data, tail_precision)
    return info


@no_type_check
@_compiled
def _observed(theta, q, p, data, basis, tail, state, tail_precision):
    """Second derivatives of −log posterior at θ, above the diagonal."""
    d, n, c = len(theta), len(data.y), data.weight
    info = np.zeros((d, d))
    both, mixed, scale = np.empty(n), np.empty(n), np.empty(n)
    shrink, z = np.empty(n), np.empty(n)
    for i in range(n):
        s, turned = state.shrink[i], state.z[i] * state.second[i] + state.first[i]
        both[i], mixed[i] = -c * state.second[i] * s * s, -c * turned * s
        scale[i] = -c * state.z[i] * turned
        shrink[i], z[i] = c * s, c * state.z[i]
    _add_products(info, (0, 0), data.x, both, data.x)
    u = _scale_slopes(data, p, state.bend)
    _add_products(info, (0, q), data.x, mixed, u)
    _add_products(info, (q, q), u, scale, u)
    for row in range(n if p > 1 else 0):
        bend = state.bend[row]
        curved = c * (1 + state.first[row] * state.z[row]) * bend * (1 - bend)
        for i in range(1, p):
            for j in range(i, p):
                info[q + i, q + j] += curved * data.u[row, i] * data.u[row, j]
    tails = d - q - p
    if tails:
        slopes = basis_slopes(state.z, basis.pieces)
        _add_products(info, (0, q + p), data.x, shrink, slopes)
        _add_products(info, (q, q + p), u, z, slopes)
        for i in range(tails):
            for j in range(i, tails):
                info[q + p + i, q + p + j] = c * n * tail.covariance[i, j]
    _add_prior_information(info, theta, q, p, data, tail_precision)
    return info


@no_type_check
@_compiled
def _factor_information(arguments, grams, near):
    """The factor of the information for a step, whether there is one, and whether it is observed.

    Near the mode the observed information serves, with a share of the expected one where it is
    indefinite.
    """
    theta, q, p, data, _, tail, state, tail_precision = arguments
    seen = np.zeros((0, 0))
    if near:
        seen = _observed(*arguments)
        low, ok = cholesky(seen)
        if ok:
            return low, True, True
    expected = _expected(theta, q, p, data, grams, tail, state, tail_precision)
    if near:
        for share in _SHARES:
            low, ok = cholesky(seen + share * expected)
            if ok:
                return low, True, False
    low, ok = cholesky(expected)
    return low, ok, False


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
    state = evaluate(theta, q, p, data, basis, tail, tail_precision)
    failed = Fit(False, theta, -np.inf, np.zeros((1, 1)), 0)
    if not (state.finite and tail.feasible):
        return failed
    converged, observed, steps = False, False, 0
    low = np.zeros((1, 1))
    while steps < MOST_STEPS and not converged:
        arguments = (theta, q, p, data, basis, tail, state, tail_precision)
        low, ok, observed = _factor_information(arguments, grams, steps >= _EXPECTED_STEPS)
        if not ok:
            return failed
        step = solve(low, state.gradient)
        gain = dot(state.gradient, step)
        if gain < 2 * TOLERANCE:
            converged = True
            break
        size, moved = 1.0, False
        for _ in range(_HALVINGS):
            trial = theta - size * step
            there = moments(trial[q + p :], basis)
            if there.feasible:
                then = evaluate(trial, q, p, data, basis, there, tail_precision)
                if then.finite and then.value < state.value - 1e-4 * size * gain:
                    steep = state.value - then.value > _STEEP * size * gain
                    theta, tail, state, moved = trial, there, then, True
                    if not (steep and size >= 1.0):
                        break
                    step = step * size  # the way goes on downhill: twice as far from here
                    gain = gain * size
                    size = 2.0
                    continue
            if moved:
                break
            size *= 0.5
        steps += 1
        if not moved:
            break
    ok = converged and observed  # then the last factor is that of the observed information here
    if not ok:
        low, ok = cholesky(_observed(theta, q, p, data, basis, tail, state, tail_precision))
    value = -state.value
    if ok:
        step = solve(low, state.gradient)
        gain = dot(state.gradient, step)
        converged = converged or gain < 100 * TOLERANCE
        value += 0.5 * min(gain, 0.1)  # what one more step would gain
    else:
        info = _expected(theta, q, p, data, grams, tail, state, tail_precision)
        low, ok = cholesky(info)
    volume = 0.0
    for i in range(len(low)):
        volume += np.log(low[i, i])
    value += log_prior_constant(q, p, tails, data, tail_precision)
    value += 0.5 * len(theta) * _LOG_TWO_PI - volume
    return Fit(converged and ok and np.isfinite(value), theta, value, low, steps)
