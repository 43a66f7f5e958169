"""Flexible mechanisms against quadrature, importance sampling, BGe and known directions."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import lognorm, multivariate_t, t

from svidag.exact.orders import ExactOrders, parent_weights
from svidag.mechanisms.flexible import FlexibleMechanism
from svidag.mechanisms.flexible_fit import (
    Regression,
    _observed,
    evaluate,
    fit,
    log_prior_constant,
)
from svidag.mechanisms.flexible_structures import exact_evidence, other_prior
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.residual_density import (
    COEFFICIENTS,
    TiltedDensity,
    moments,
    spline_basis,
)
from svidag.prior import Prior

BASIS = spline_basis()
NAMES = ("a", "b", "c", "d", "e")


def regression(y, x, weight=1.0):
    """A regression with the prior of BGe, and its Gram matrices."""
    n, size = x.shape
    standard = (x - x.mean(axis=0)) / x.std(axis=0) if size else x
    bends = np.abs(standard) - np.abs(standard).mean(axis=0) if size else x
    inputs = np.column_stack([x, np.ones(n)])
    u = np.column_stack([np.ones(n), standard, bends])
    precision = np.append(np.full(size, 0.5), 1.0)
    data = Regression(inputs, u, y, weight, precision, 0.5 * (size + 3), 0.25, 4.0)
    return data, (inputs.T @ inputs, inputs.sum(axis=0), u.T @ u)


def noise(kind, n, rng):
    drawn = {
        "normal": rng.standard_normal,
        "t3": lambda size: rng.standard_t(3, size),
        "lognormal": lambda size: np.exp(rng.standard_normal(size)),
        "uniform": lambda size: rng.uniform(-1.7, 1.7, size),
    }[kind](n)
    return (drawn - drawn.mean()) / drawn.std()


def importance(found, data, p, tail, draws=20_000, seed=0):
    """The log evidence by importance sampling around the mode, and its error."""
    q, precision = data.x.shape[1], tail**-2 if tail else 1.0
    covariance = np.linalg.inv(found.factor @ found.factor.T)
    proposal = multivariate_t(found.theta, covariance, df=7, seed=seed)
    theta = proposal.rvs(draws).reshape(draws, -1)
    weights = np.full(draws, -np.inf)
    density = proposal.logpdf(theta).reshape(draws)
    for i, each in enumerate(theta):
        tails = moments(each[q + p :], BASIS)
        if tails.feasible:
            state = evaluate(each, q, p, data, BASIS, tails, precision)
            weights[i] = -state.value - density[i]
    constant = log_prior_constant(q, p, len(found.theta) - q - p, data, precision)
    share = np.exp(weights - logsumexp(weights))
    return logsumexp(weights) - np.log(draws) + constant, np.sqrt((share**2).sum())


@pytest.mark.parametrize("spread", [0.0, 0.15, 0.3])
def test_the_density_is_normalised_and_its_moments_are_right(spread):
    beta = spread * np.random.default_rng(0).standard_normal(BASIS.phi.shape[1]) + 1e-12
    density, found = TiltedDensity(beta), moments(beta, BASIS)
    assert found.feasible
    edges = [-14.0, -np.arcsinh(4.0), -1.0, 0.0, 1.0, np.arcsinh(4.0), 14.0]
    step = 1e-5

    def log_p(z):
        return float(density.log_density(np.array([z]))[0])

    def score(z):
        return (log_p(z + step) - log_p(z - step)) / (2 * step)

    def expectation(g):
        def integrand(a):
            return g(np.sinh(a)) * np.exp(log_p(np.sinh(a))) * np.cosh(a)

        return sum(quad(integrand, *ends, limit=200)[0] for ends in pairwise(edges))

    assert expectation(lambda z: 1.0) == pytest.approx(1.0, abs=1e-6)
    assert density.mean == pytest.approx(expectation(lambda z: z), abs=1e-4)
    shift, mixed, scale = found.informations
    assert shift == pytest.approx(expectation(lambda z: score(z) ** 2), abs=2e-3)
    assert mixed == pytest.approx(expectation(lambda z: score(z) * (z * score(z) + 1)), abs=2e-3)
    assert scale == pytest.approx(expectation(lambda z: (z * score(z) + 1) ** 2), abs=2e-3)


def test_splines_hold_no_constant_shift_or_scale():
    found = moments(np.zeros(BASIS.phi.shape[1]), BASIS)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-4)
    np.testing.assert_allclose(found.phi_shift, 0.0, atol=1e-4)
    np.testing.assert_allclose(found.phi_scale, 0.0, atol=1e-3)


def test_quantiles_invert_the_density():
    beta = 0.5 * np.random.default_rng(1).standard_normal(BASIS.phi.shape[1])
    density, step = TiltedDensity(beta), 1e-4
    p = np.linspace(0.01, 0.99, 25)
    rate = 2 * step / (density.quantile(p + step) - density.quantile(p - step))
    np.testing.assert_allclose(rate, np.exp(density.log_density(density.quantile(p))), rtol=0.02)


@pytest.mark.parametrize("p", [1, 5])
def test_gradient_and_information_are_derivatives(p):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((60, 2))
    data, _ = regression(x @ [1.0, 0.5] + rng.standard_t(3, 60), x)
    q = 3
    theta = np.concatenate([[0.8, 0.3, 0.1, -0.2], 0.1 * rng.standard_normal(p - 1 + COEFFICIENTS)])

    def at(point):
        return evaluate(point, q, p, data, BASIS, moments(point[q + p :], BASIS), 1.0)

    steps = 1e-5 * np.eye(len(theta))
    state = at(theta)
    slopes = [(at(theta + h).value - at(theta - h).value) / 2e-5 for h in steps]
    np.testing.assert_allclose(state.gradient, slopes, atol=1e-5)
    bends = np.array([(at(theta + h).gradient - at(theta - h).gradient) / 2e-5 for h in steps])
    found = _observed(theta, q, p, data, BASIS, moments(theta[q + p :], BASIS), state, 1.0)
    np.testing.assert_allclose(np.triu(found), np.triu(bends), atol=1e-3)


@pytest.mark.parametrize("parents", [(), (1,), (1, 2, 3)])
def test_the_plain_structure_is_bge(parents):
    x = np.random.default_rng(3).standard_normal((80, 5)) @ np.triu(np.ones((5, 5)))
    model = FlexibleMechanism.from_values(x, NAMES, locations=("linear",))
    chosen = np.zeros((1, 5), dtype=bool)
    chosen[0, list(parents)] = True
    bge = LinearGaussian.from_values(x).family_scores(np.array([0]), chosen)[0]
    plain = model.family(0, np.array(parents, dtype=np.int64)).structures[0]
    assert plain.evidence == pytest.approx(bge, abs=1e-8)


@pytest.mark.parametrize("kind", ["normal", "t3", "lognormal", "uniform"])
@pytest.mark.parametrize(("parents", "varying"), [(0, False), (1, False), (1, True)])
def test_laplace_evidence_is_close_to_importance_sampling(kind, parents, varying):
    rng = np.random.default_rng(4)
    n = 150
    x = rng.standard_normal((n, parents))
    y = x.sum(axis=1) + noise(kind, n, rng)
    data, grams = regression((y - y.mean()) / y.std(), x)
    p = data.u.shape[1] if varying else 1
    mode = exact_evidence(data)[1]
    start = np.concatenate([mode, np.zeros(p - 1 + COEFFICIENTS)])
    # 150 rows say little about ten coefficients: the wider the prior, the less is it a parabola.
    for tail, allowed in ((1.0, 0.5), (3.0, 1.2)):
        found = fit(start, data, grams, BASIS, p, tail**-2)
        assert found.ok
        expected, error = importance(found, data, p, tail, draws=8000)
        assert error < 0.8
        assert found.evidence == pytest.approx(expected, abs=allowed + 2 * error)


@pytest.mark.parametrize("kind", ["t3", "lognormal"])
def test_tails_beyond_the_knots_predict_as_well_as_the_truth(kind):
    truth = t(3) if kind == "t3" else lognorm(1.0)
    seen, unseen = truth.rvs((2, 4000), random_state=5)
    data, grams = regression(seen, np.zeros((4000, 0)))
    start = np.concatenate([exact_evidence(data)[1], np.zeros(COEFFICIENTS)])
    found = fit(start, data, grams, BASIS, 1, 1 / 9)
    location, log_scale, beta = found.theta[0], found.theta[1], found.theta[2:]
    z = (unseen - location) * np.exp(-log_scale)
    predicted = TiltedDensity(beta).log_density(z) - log_scale
    assert np.abs(z).max() > 10
    assert predicted.mean() > truth.logpdf(unseen).mean() - (0.01 if kind == "t3" else 0.06)


def test_another_prior_scale_is_foreseen_where_noise_is_nearly_normal():
    rng = np.random.default_rng(6)
    data, grams = regression(rng.standard_normal(800), rng.standard_normal((800, 1)))
    start = np.concatenate([exact_evidence(data)[1], np.zeros(COEFFICIENTS)])
    first = fit(start, data, grams, BASIS, 1, 1.0)
    other = fit(start, data, grams, BASIS, 1, 1 / 9)
    assert other_prior(first, 1.0, 3.0)[0] == pytest.approx(other.evidence, abs=0.5)


def linear_table(kind, m=4, n=600, seed=0):
    """x_0 → x_1 → x_2 and x_0 → x_3."""
    rng = np.random.default_rng(seed)
    x = np.stack([noise(kind, n, rng) for _ in range(m)], axis=1)
    for cause, effect in ((0, 1), (1, 2), (0, 3)):
        x[:, effect] += x[:, cause]
    return (x - x.mean(axis=0)) / x.std(axis=0)


def edges(scores):
    prior = Prior().bind(NAMES[: len(scores)])
    return ExactOrders.build(parent_weights(scores, prior), prior.required).edge_probabilities()


@pytest.mark.parametrize("seed", range(3))
def test_linear_gaussian_data_give_what_bge_gives(seed):
    x = linear_table("normal", seed=seed)
    model = FlexibleMechanism.from_values(x, NAMES[:4], units=20)
    found, bge = edges(model.score_tables()), edges(model.linear.score_tables())
    either = np.maximum(found, bge) > 0.05
    gaps = np.abs(found - bge)[either]
    assert gaps.mean() <= 0.03
    assert gaps.max() <= 0.15
    assert model.counts["failures"] <= 0.01 * model.counts["fits"]


def test_column_order_and_sign_do_not_matter_with_linear_location():
    x = linear_table("lognormal")
    turned, order = x * [1.0, -1.0, -1.0, 1.0], [2, 0, 3, 1]
    node, parents = 1, [0, 2]
    scores = [
        FlexibleMechanism.from_values(values, NAMES[:4], locations=("linear",))
        .family(at, np.array(given))
        .evidence
        for values, at, given in (
            (x, node, parents),
            (turned, node, parents),
            (x[:, order], order.index(node), [order.index(i) for i in parents]),
        )
    ]
    assert scores[1] == pytest.approx(scores[0], abs=0.02)
    assert scores[2] == pytest.approx(scores[0], abs=0.02)


def test_rows_in_which_a_node_was_set_are_left_out_for_it():
    x = linear_table("t3")
    mask = np.zeros(x.shape, dtype=bool)
    mask[:200, 1] = True
    set_from_outside = x.copy()
    set_from_outside[:200, 1] = 5.0
    model = FlexibleMechanism.from_values(set_from_outside, NAMES[:4], mask, units=10)
    rest = FlexibleMechanism.from_values(x[200:], NAMES[:4], units=10)
    parents = np.array([0, 3])
    assert model.family(1, parents).evidence == pytest.approx(rest.family(1, parents).evidence)


def growing_pair(n, rng):
    cause = rng.standard_normal(n)
    return cause, 0.5 * cause + np.exp(0.8 * cause) * rng.standard_normal(n)


@pytest.mark.parametrize("kind", ["t3", "lognormal", "uniform", "growing"])
def test_pairs_are_directed(kind):
    rng = np.random.default_rng(7)
    if kind == "growing":
        cause, effect = growing_pair(800, rng)
    else:
        cause, own = (noise(kind, 800, rng) for _ in range(2))
        effect = cause + own
    x = np.stack([cause, effect], axis=1)
    model = FlexibleMechanism.from_values((x - x.mean(axis=0)) / x.std(axis=0), ("a", "b"))
    assert edges(model.score_tables())[0, 1] > 0.95


def test_coarsened_plain_structure_is_bge_with_fewer_rows():
    """With the likelihood to the power c, products of rows and their number shrink by c."""
    x = linear_table("normal", n=400)
    model = FlexibleMechanism.from_values(x, NAMES[:4], weight=0.2, locations=("linear",))
    shrunk = LinearGaussian.from_values(x, weight=0.2)
    chosen = np.array([[False, True, True, False]])
    plain = model.family(0, np.array([1, 2])).structures[0].evidence
    assert plain == pytest.approx(shrunk.family_scores(np.array([0]), chosen)[0], abs=1e-6)
    assert model.family(0, np.array([1, 2])).failures == 0


def test_bad_settings_are_named():
    x = np.zeros((10, 2))
    with pytest.raises(ValueError, match="locations"):
        FlexibleMechanism.from_values(x, ("a", "b"), locations=("network",))
    with pytest.raises(ValueError, match="weight"):
        FlexibleMechanism.from_values(x, ("a", "b"), weight=0.0)
    with pytest.raises(ValueError, match="own parents"):
        FlexibleMechanism.from_values(x, ("a", "b")).family_scores(
            np.array([0]), np.array([[True, False]])
        )


def test_a_node_that_was_always_set_has_no_evidence():
    x = linear_table("t3", n=40)
    mask = np.zeros(x.shape, dtype=bool)
    mask[:, 1] = True
    model = FlexibleMechanism.from_values(x, NAMES[:4], mask, units=8)
    assert model.family(1, np.array([0])).evidence == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("rows", [3, 12])
def test_few_rows_and_a_column_of_two_values_have_finite_evidence(rows):
    x = np.random.default_rng(8).standard_normal((rows, 3))
    x[:, 2] = x[:, 2] > 0
    model = FlexibleMechanism.from_values(x, NAMES[:3], units=8)
    scores = model.score_tables()
    codes = np.arange(8)
    for j in range(3):
        assert np.isfinite(scores[j, codes >> j & 1 == 0]).all()
