"""Draws of parameters against conjugate algebra and against the evidence they belong to."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_t

import svidag
from svidag.data import Dataset
from svidag.graph import ancestors, random_dag
from svidag.mechanisms.equations import schedule
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_parameters import LinearEquations, LinearParameters
from svidag.mechanisms.wide import PRECISIONS, WideNetwork, even_thresholds, named_directions
from svidag.mechanisms.wide_parameters import WideParameters

NAMES = ("a", "b", "c")
GRAPH = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=np.uint8)
UNITS = 12
DRAWS = 20_000


def table(n=25, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3))
    x[:, 1] += np.abs(x[:, 0])
    x[:, 2] += x[:, 1] - 0.5 * x[:, 0]
    mask = np.zeros(x.shape, dtype=bool)
    mask[:6, 2] = True
    mask[4:9, 1] = True
    return x * [2.0, 0.5, 3.0] + [1.0, -4.0, 10.0], mask


def linear(values, mask):
    return LinearGaussian.from_values(values, mask)


def wide(values, mask):
    return WideNetwork.from_values(values, NAMES, mask, units=UNITS, seed=3)


LAWS = {"linear": (linear, LinearParameters), "wide": (wide, WideParameters)}


def evidence(model):
    return model.family_scores(np.arange(3), GRAPH.T.astype(bool)).sum()


def within(drawn, expected, errors=5.0):
    """Whether the mean of draws is within some of its standard errors of a value, everywhere."""
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - expected), errors * error)


def features(z, parents):
    """φ(x_S) of the wide network, written out from its definition."""
    plain = np.hstack([0.5 * z[:, parents], np.full((len(z), 1), 0.5)])
    if not parents:
        return plain
    directions = named_directions(NAMES, UNITS, 3)[parents]
    directions = directions / np.sqrt((directions**2).sum(axis=0))
    hidden = np.maximum(z[:, parents] @ directions - even_thresholds(UNITS, 3), 0)
    return np.hstack([plain, np.sqrt(2 / UNITS) * hidden])


@pytest.mark.parametrize("kind", LAWS)
def test_the_average_density_of_a_new_row_is_the_ratio_of_evidences(kind):
    build, distribution = LAWS[kind]
    x, mask = table()
    data, scaling = Dataset.from_any(x, names=NAMES, interventions=mask).standardise()
    new = np.array([[2.5, -4.2, 12.0]])
    longer = np.vstack([data.values, scaling.apply(new)])
    nowhere = np.vstack([mask, np.zeros((1, 3), dtype=bool)])
    expected = evidence(build(longer, nowhere)) - evidence(build(data.values, mask))
    expected -= np.log(scaling.scale).sum()
    graphs = np.repeat(GRAPH[None], DRAWS, axis=0)
    terms = distribution(build(data.values, mask), scaling).log_likelihood(graphs, new, seed=1)[
        :, 0
    ]
    within(np.exp(terms - expected), 1.0)
    assert np.exp(terms - expected).std() < 2.0  # so that the errors above are small ones
    assert logsumexp(terms) - np.log(DRAWS) == pytest.approx(expected, abs=0.02)


def test_linear_draws_have_the_moments_of_a_conjugate_regression():
    x, mask = table()
    model = linear(x, mask)
    drawn = LinearParameters(model, None).parameters(GRAPH, DRAWS, seed=2)
    assert (drawn["weights"][:, GRAPH == 0] == 0).all()
    for j in range(3):
        parents = np.flatnonzero(GRAPH[:, j])
        rows = ~mask[:, j]
        inputs = np.hstack([np.ones((rows.sum(), 1)), x[rows][:, parents]])
        prior = np.diag([model.mean_weight, *[model.prior_scale] * len(parents)])
        precision = prior + inputs.T @ inputs
        mean = np.linalg.solve(precision, inputs.T @ x[rows, j])
        shape = 0.5 * (model.scale_weight - 3 + len(parents) + 1 + rows.sum())
        rate = 0.5 * (model.prior_scale + x[rows, j] @ x[rows, j] - mean @ precision @ mean)
        both = np.hstack([drawn["intercept"][:, [j]], drawn["weights"][:, parents, j]])
        within(both, mean)
        variance = drawn["noise_sd"][:, j] ** 2
        within(variance, rate / (shape - 1))
        within(1 / variance, shape / rate)
        deviation = both - mean
        outer = np.einsum("ni,nj->nij", deviation, deviation)
        within(outer, rate / (shape - 1) * np.linalg.inv(precision))
        within(outer / variance[:, None, None], np.linalg.inv(precision))


def test_the_predictive_density_is_students():
    """The chain rule over nodes: each is a t density given the parents' values."""
    x, mask = table()
    model = linear(x, mask)
    new = np.array([[0.5, -4.0, 11.0], [3.0, -5.0, 5.0]])
    expected = np.zeros(2)
    for j in range(3):
        parents = np.flatnonzero(GRAPH[:, j])
        rows = ~mask[:, j]
        inputs = np.hstack([np.ones((rows.sum(), 1)), x[rows][:, parents]])
        precision = inputs.T @ inputs
        precision += np.diag([model.mean_weight, *[model.prior_scale] * len(parents)])
        mean = np.linalg.solve(precision, inputs.T @ x[rows, j])
        left = model.prior_scale + x[rows, j] @ x[rows, j] - mean @ precision @ mean
        df = model.scale_weight - 3 + len(parents) + 1 + rows.sum()
        at = np.hstack([np.ones((2, 1)), new[:, parents]])
        for k in range(2):
            spread = 1 + at[k] @ np.linalg.solve(precision, at[k])
            expected[k] += multivariate_t.logpdf(new[k, j], at[k] @ mean, left / df * spread, df)
    graphs = np.repeat(GRAPH[None], DRAWS, axis=0)
    terms = LinearParameters(model, None).log_likelihood(graphs, new, seed=4)
    assert logsumexp(terms, axis=0) - np.log(DRAWS) == pytest.approx(expected, abs=0.03)


def test_wide_draws_have_the_moments_of_a_mixture_of_conjugate_regressions():
    x, mask = table()
    distribution = WideParameters(wide(x, mask), None)
    drawn = distribution.parameters(GRAPH, DRAWS, seed=2)
    for j in range(3):
        parents = list(np.flatnonzero(GRAPH[:, j]))
        rows = ~mask[:, j]
        phi, y, n = features(x[rows], parents), x[rows, j], rows.sum()
        log_share, means, scatters, variances = [], [], [], []
        for precision in PRECISIONS:
            inner = phi.T @ phi + precision * np.eye(phi.shape[1])
            mean = np.linalg.solve(inner, phi.T @ y)
            rate = 1 + 0.5 * (y @ y - y @ phi @ mean)
            shape = np.eye(n) + phi @ phi.T / precision
            log_share.append(multivariate_t.logpdf(y, shape=shape, df=2))
            means.append(mean)
            variances.append(rate / (n / 2))
            scatters.append(np.outer(mean, mean) + rate / (n / 2) * np.linalg.inv(inner))
        share = np.exp(log_share - logsumexp(log_share))
        factors = [0.5] * (len(parents) + 1) + [np.sqrt(2 / UNITS)] * (len(means[0]) - 1)
        factors = np.array(factors[: len(means[0])])
        w = np.hstack([drawn["weights"][:, parents, j], drawn["intercept"][:, [j]]])
        if parents:
            w = np.hstack([w, drawn["hidden"][:, j]])
        w = w / factors
        within(w, share @ np.array(means))
        within(np.einsum("ni,nj->nij", w, w), np.einsum("k,kij->ij", share, scatters), errors=6)
        within(drawn["noise_sd"][:, j] ** 2, share @ variances)


@pytest.mark.parametrize("kind", LAWS)
def test_rows_set_from_outside_do_not_touch_the_nodes_own_draws(kind):
    build, distribution = LAWS[kind]
    x, mask = table()
    one = distribution(build(x, mask), None).parameters(GRAPH, 50, seed=0)
    other = x.copy()
    other[mask[:, 2], 2] += 100.0
    two = distribution(build(other, mask), None).parameters(GRAPH, 50, seed=0)
    for name, values in one.items():
        own = (Ellipsis, 2) if name != "hidden" else (slice(None), 2)
        np.testing.assert_array_equal(values[own], two[name][own])
    assert (one["weights"] == two["weights"]).all()  # c has no children here
    third = x.copy()
    third[mask[:, 1], 1] += 100.0  # b's outside values are still inputs of c
    three = distribution(build(third, mask), None).parameters(GRAPH, 50, seed=0)
    assert (one["weights"][:, 0, 1] == three["weights"][:, 0, 1]).all()
    assert (one["weights"][:, 1, 2] != three["weights"][:, 1, 2]).all()


@pytest.mark.parametrize("kind", LAWS)
def test_equations_agree_with_their_own_parameters_in_the_units_of_the_table(kind):
    build, distribution = LAWS[kind]
    x, mask = table()
    data, scaling = Dataset.from_any(x, names=NAMES, interventions=mask).standardise()
    laws = distribution(build(data.values, mask), scaling)
    rng = np.random.default_rng(5)
    graphs = np.stack([random_dag(3, k % 4, seed=k) for k in range(40)])
    equations = laws.draw(graphs, seed=7)
    noise = rng.standard_normal((40, 6, 3))
    simulated = equations.propagate(np.full((40, 6, 3), np.nan), noise, np.ones((40, 3), bool))
    expected = np.empty_like(simulated)
    for s, graph in enumerate(graphs):
        for j in np.argsort(ancestors(graph).sum(axis=0)):
            parents = list(np.flatnonzero(graph[:, j]))
            mean = (
                equations.intercept[s, j]
                + expected[s][:, parents] @ (equations.weights[s, parents, j])
            )
            if kind == "wide" and parents:
                z = scaling.apply(expected[s])
                hidden = features(z, parents)[:, len(parents) + 1 :] / np.sqrt(2 / UNITS)
                mean += hidden @ equations.hidden[s, j]
            expected[s, :, j] = mean + equations.noise_sd[s, j] * noise[s, :, j]
    np.testing.assert_allclose(simulated, expected, atol=1e-9)
    # A row's density is that of the noise that made it.
    density = equations.log_likelihood(simulated.reshape(-1, 3)).reshape(40, 40, 6)
    own = density[np.arange(40), np.arange(40)]
    log_p = -0.5 * (noise**2).sum(axis=2) - 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(
        own, log_p - np.log(equations.noise_sd).sum(axis=1)[:, None], atol=1e-8
    )


@pytest.mark.parametrize("kind", LAWS)
def test_nodes_that_are_not_chosen_keep_their_values(kind):
    build, distribution = LAWS[kind]
    x, mask = table()
    equations = distribution(build(x, mask), None).draw(GRAPH[None], seed=0)
    noise = np.random.default_rng(0).standard_normal((1, 4, 3))
    full = equations.propagate(np.zeros((1, 4, 3)), noise, np.ones((1, 3), bool))
    again = full.copy()
    again[..., 2] = 0.0
    only_c = equations.propagate(again, noise, np.array([[False, False, True]]))
    np.testing.assert_allclose(only_c, full, atol=1e-12)
    again[..., 1] += 1.0
    kept = equations.propagate(again, noise, np.array([[False, False, True]]))
    np.testing.assert_array_equal(kept[..., :2], again[..., :2])
    assert (kept[..., 2] != full[..., 2]).all()


@pytest.mark.parametrize("kind", LAWS)
def test_equations_that_nobody_needs_are_left_out_and_the_others_stay(kind):
    build, distribution = LAWS[kind]
    x, mask = table()
    laws = distribution(build(x, mask), None)
    graphs = np.repeat(GRAPH[None], 5, axis=0)
    needed = np.repeat([[False, True, True]], 5, axis=0)
    every, some = laws.draw(graphs, seed=0), laws.draw(graphs, seed=0, nodes=needed)
    np.testing.assert_array_equal(every.weights[:, :, 1:], some.weights[:, :, 1:])
    np.testing.assert_array_equal(every.intercept[:, 1:], some.intercept[:, 1:])
    assert np.isnan(some.noise_sd[:, 0]).all()
    assert np.isnan(some.log_likelihood(x)).all()


@pytest.mark.parametrize("kind", LAWS)
def test_equal_graphs_have_independent_draws_that_repeat_with_the_seed(kind):
    build, distribution = LAWS[kind]
    x, mask = table()
    laws = distribution(build(x, mask), None)
    one = laws.parameters(GRAPH, 6, seed=0)
    assert len(np.unique(one["noise_sd"][:, 2])) == 6
    again, other = laws.parameters(GRAPH, 6, seed=0), laws.parameters(GRAPH, 6, seed=1)
    assert all((again[name] == values).all() for name, values in one.items())
    assert (other["noise_sd"] != one["noise_sd"]).all()


def test_causes_come_before_effects_in_the_schedule():
    graphs = np.stack([random_dag(7, 9, seed=k) for k in range(20)])
    nodes = np.random.default_rng(0).random((20, 7)) < 0.7
    equations = LinearEquations(graphs, graphs * 1.0, np.zeros((20, 7)), np.ones((20, 7)))
    for graph, chosen, turns in zip(graphs, nodes, schedule(equations.order, nodes), strict=True):
        assert sorted(turns[turns >= 0]) == list(np.flatnonzero(chosen))
        assert (turns[chosen.sum() :] == -1).all()
        place = {j: k for k, j in enumerate(turns) if j >= 0}
        assert all(place[i] < place[j] for i, j in np.argwhere(graph) if i in place and j in place)


@pytest.mark.slow
def test_fits_carry_the_distribution_of_their_parameters():
    x, _ = table(60)
    frame = Dataset.from_any(x, names=NAMES)
    quick = svidag.methods.OrderMCMC(exact=False, chains=1, burn_in=20, orders=50, thin=1, units=8)
    exact = svidag.exact.posterior(frame)
    found = svidag.fit(frame, method=quick, mechanism="linear", progress=False)
    one, two = (posterior.parameters(GRAPH, 10) for posterior in (exact, found))
    np.testing.assert_allclose(one["weights"], two["weights"])
    bent = svidag.fit(frame, method=quick, mechanism="nonlinear", progress=False)
    assert bent.parameters(GRAPH, 10)["hidden"].shape == (10, 3, 8)
    for posterior in (exact, bent):
        assert np.isfinite(posterior.predictive_log_likelihood(x[:4], n=50)).all()
