"""Effects and interventions against closed forms, enumeration and generating models."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import svidag
from svidag import Prior
from svidag.data import DataWarning, Scaling
from svidag.effects.estimation import UNITS, simulate
from svidag.effects.query import EffectQuery
from svidag.graph import all_dags, ancestors
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_parameters import LinearParameters
from svidag.mechanisms.mlp import MLPMechanism
from svidag.mechanisms.wide import WideNetwork
from svidag.mechanisms.wide_parameters import WideParameters
from svidag.posterior import DrawnGraphs, Posterior
from svidag.variational.guide import BernoulliGuide
from svidag.variational.particle_bound import Networks
from svidag.variational.particle_posterior import NetworkParameters

NAMES = ("a", "b", "c", "d")
FAR = pytest.mark.filterwarnings("ignore::svidag.effects.ExtrapolationWarning")


def table(n=40, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 4))
    x[:, 1] += 0.8 * x[:, 0]
    x[:, 2] += 0.5 * x[:, 1] - 0.5 * x[:, 3]
    return pd.DataFrame(x * [1.0, 3.0, 0.2, 1.0] + [5.0, 0.0, 0.0, -2.0], columns=list(NAMES))


def graph(*edges):
    A = np.zeros((4, 4), dtype=np.uint8)
    for edge in edges:
        A[NAMES.index(edge[0]), NAMES.index(edge[1])] = 1
    return A


def certain(A, distribution):
    return Posterior(NAMES, DrawnGraphs(A[None], np.ones(1)), distribution)


def regression(model, A, j):
    """Posterior mean and covariance (given unit noise) of (intercept, coefficients), E[σ²]."""
    parents = np.flatnonzero(A[:, j])
    n, g = model.rows[model.group[j]], model.group[j]
    kappa = n + model.mean_weight
    # (1, x) has the second moments of R around the mean that shrinks to 0.
    mean = model.mean[g]
    second = model.scatter[g] + kappa * np.outer(mean, mean)
    precision = np.block(
        [
            [np.array([[kappa]]), kappa * mean[parents][None]],
            [kappa * mean[parents][:, None], second[np.ix_(parents, parents)]],
        ]
    )
    right = np.concatenate([[kappa * mean[j]], second[parents, j]])
    centre = np.linalg.solve(precision, right)
    shape = 0.5 * (n + model.scale_weight - model.m + len(parents) + 1)
    rate = 0.5 * (second[j, j] - centre @ right)
    return centre, np.linalg.inv(precision), rate / (shape - 1)


def effect_moments(model, A, cause, effect):
    """E[τ | A] and E[τ² | A]: columns of W are independent and a path visits each once."""
    m = len(A)
    first, second = np.zeros(m), np.zeros((m, m))
    first[cause] = second[cause, cause] = 1.0
    done = [cause]
    for j in np.argsort(ancestors(A).sum(axis=0), kind="stable"):
        parents = np.flatnonzero(A[:, j])
        if j == cause or not ancestors(A)[cause, j]:
            continue
        centre, covariance, noise = regression(model, A, j)
        w = centre[1:]
        squares = np.outer(w, w) + noise * covariance[1:, 1:]
        first[j] = w @ first[parents]
        for k in done:
            second[j, k] = second[k, j] = w @ second[parents, k]
        second[j, j] = (squares * second[np.ix_(parents, parents)]).sum()
        done.append(j)
    return first[effect], second[effect, effect]


@FAR
@pytest.mark.parametrize(("cause", "effect"), [("a", "c"), ("d", "c"), ("b", "a")])
def test_mean_and_spreads_equal_the_sum_over_all_graphs(cause, effect):
    frame = table()
    prior = Prior(p=0.3, beliefs={("a", "b"): 0.8})
    posterior = svidag.exact.posterior(frame, prior=prior)
    data, scaling = svidag.Dataset.from_any(frame).standardise()
    model = LinearGaussian.from_values(data.values)
    i, j = NAMES.index(cause), NAMES.index(effect)
    graphs = all_dags(4)
    share = np.exp(posterior.graphs.log_probability(graphs))
    assert share.sum() == pytest.approx(1.0)
    moments = np.array([effect_moments(model, A, i, j) for A in graphs])
    unit = 2.5 * scaling.scale[j] / scaling.scale[i]
    mean, between, within = (
        unit * share @ moments[:, 0],
        unit**2 * (share @ moments[:, 0] ** 2 - (share @ moments[:, 0]) ** 2),
        unit**2 * share @ (moments[:, 1] - moments[:, 0] ** 2),
    )
    n = 20_000
    found = posterior.effect(cause, effect, change=2.5, n=n)
    assert abs(found.mean - mean) < 5 * found.standard_error
    assert found.standard_error < 0.02 * np.sqrt(between + within)
    assert found.structural_sd == pytest.approx(np.sqrt(between), rel=0.05)
    assert found.parametric_sd == pytest.approx(np.sqrt(within), rel=0.05)
    assert found.sd == pytest.approx(np.sqrt(between + within), rel=0.05)
    no_path = share @ ~ancestors(graphs)[:, i, j]
    assert found.probability_zero == pytest.approx(no_path, abs=5 * np.sqrt(0.25 / n))
    assert (found.draws == 0).mean() == pytest.approx(found.probability_zero, abs=1e-12)


def test_a_linear_effect_sums_over_paths_and_holding_cuts_them():
    distribution = LinearParameters(LinearGaussian.from_values(table().to_numpy()), None)
    A = graph("ab", "bc", "ac", "ad", "dc", "bd")
    posterior = certain(A, distribution)
    found = posterior.effect("a", "c", change=-2.0, at=0.0, n=50)
    W = distribution.draw(np.repeat(A[None], 100, axis=0), seed=0).weights
    ab, bc, ac, ad, dc, bd = (
        W[:, i, j] for i, j in ((0, 1), (1, 2), (0, 2), (0, 3), (3, 2), (1, 3))
    )
    along = ac + ab * bc + ad * dc + ab * bd * dc
    np.testing.assert_allclose(found.draws.ravel(), -2.0 * along, rtol=1e-10)
    direct = posterior.effect("a", "c", at=0.0, n=50, holding={"b": 1.0, "d": 0})
    np.testing.assert_allclose(direct.draws.ravel(), ac, rtol=1e-10)
    past_b = posterior.effect("a", "c", at=0.0, n=50, holding={"b": 1.0})
    np.testing.assert_allclose(past_b.draws.ravel(), ac + ad * dc, rtol=1e-10)
    blocked = certain(graph("ab", "bc"), distribution).effect(
        "a", "c", at=0.0, n=5, holding={"b": 0.0}
    )
    assert blocked.probability_zero == 1.0
    assert (blocked.draws == 0).all()


def test_without_bends_simulation_gives_the_linear_effect():
    """A wide network without hidden units is linear, and then noise cancels."""
    x = table().to_numpy()
    scaling = Scaling(centre=x.mean(axis=0), scale=x.std(axis=0))
    model = WideNetwork.from_values(scaling.apply(x), NAMES, units=0)
    graphs = all_dags(4)[::7]
    graphs = graphs[ancestors(graphs)[:, 1, 2]]
    equations = WideParameters(model, scaling).draw(graphs, seed=1)
    fixed = np.array([np.nan, 1.0, np.nan, np.nan])
    query = EffectQuery(1, 2, 0.5, fixed)
    found, variance = simulate(equations, query, query.relevant_nodes(graphs), seed=0, share=1.0)
    slopes = np.linalg.inv(np.eye(4) - equations.weights)[:, 1, 2]
    np.testing.assert_allclose(found, 0.5 * slopes, atol=1e-10)
    assert variance < 1e-20


def networks(scaling):
    mechanism = MLPMechanism(4, hidden=(8,), hyper=(4,), noise_location=0.0, key=jax.random.key(0))
    return NetworkParameters(Networks(BernoulliGuide(jnp.zeros((4, 4))), mechanism), scaling)


def wide(scaling):
    values = scaling.apply(table(200).to_numpy())
    return WideParameters(WideNetwork.from_values(values, NAMES, units=20), scaling)


SCALING = Scaling(centre=np.array([5.0, 0.0, 0.0, -2.0]), scale=np.array([1.0, 4.0, 0.3, 1.0]))
LAWS = {"wide": wide, "mlp": networks}


@pytest.mark.parametrize("kind", LAWS)
def test_a_nonlinear_effect_is_the_difference_of_two_simulated_means(kind):
    distribution = LAWS[kind](SCALING)
    A = graph("ab", "bc", "dc", "da")
    found = certain(A, distribution).effect("b", "c", change=3.0, at=1.0, n=6, seed=4)
    assert found.simulation_error > 0
    equations = distribution.draw(np.repeat(A[None], 12, axis=0), seed=4)
    free = np.repeat([[True, False, True, True]], 12, axis=0)
    rng = np.random.default_rng(0)
    difference = []
    for _ in range(60):
        noise = rng.standard_normal((12, UNITS, 4))
        values = np.full((2, *noise.shape), np.nan)
        values[..., 1] = np.array([4.0, 1.0])[:, None, None]
        high, low = (equations.propagate(v, noise, free)[..., 2] for v in values)
        difference.append(high - low)
    difference = np.concatenate(difference, axis=1)
    error = np.hypot(difference.std(axis=1) / np.sqrt(60 * UNITS), found.simulation_error)
    assert (np.abs(found.draws.ravel() - difference.mean(axis=1)) < 4 * error).all()
    assert (np.abs(difference.mean(axis=1)) > 4 * error).all()
    backwards = certain(A, distribution).effect("c", "b", at=0.0, n=6)
    assert (backwards.draws == 0).all()


def test_networks_simulate_the_rows_that_they_find_likely():
    """A row's density is that of the noise that made it, graph by graph."""
    distribution = networks(SCALING)
    graphs = all_dags(4)[::90]
    equations = distribution.draw(graphs, seed=2)
    noise = np.random.default_rng(1).standard_normal((len(graphs), UNITS, 4))
    everything = np.ones((len(graphs), 4), dtype=bool)
    rows = equations.propagate(np.full(noise.shape, np.nan), noise, everything)
    sd = distribution.parameters(graphs[0], 1, seed=2)["noise_sd"][0]
    one = distribution.draw(graphs[:1], seed=2)
    first = one.propagate(np.full((1, UNITS, 4), np.nan), noise[:1], everything[:1])
    log_p = -0.5 * (noise[0] ** 2).sum(axis=1) - 2 * np.log(2 * np.pi) - np.log(sd).sum()
    np.testing.assert_allclose(one.log_likelihood(first[0])[0], log_p, rtol=1e-3)
    density = equations.log_likelihood(rows.reshape(-1, 4)).reshape(len(graphs), len(graphs), UNITS)
    own = density[np.arange(len(graphs)), np.arange(len(graphs))]
    quadratic = own + 0.5 * (noise**2).sum(axis=2)  # what is left is the same in each row
    np.testing.assert_allclose(quadratic, np.repeat(quadratic[:, :1], UNITS, axis=1), atol=5e-3)


def test_nonlinear_effects_approach_those_of_the_generating_model():
    example = svidag.datasets.synthetic(m=4, edges=4, n=4000, kind="nonlinear", seed=6)
    posterior = svidag.exact.posterior(example.data, mechanism="nonlinear", units=60)
    truth = example.truth.to_numpy()
    causes, effects = np.nonzero(ancestors(truth))
    for i, j in zip(causes, effects, strict=True):
        cause, effect = example.names[i], example.names[j]
        found = posterior.effect(cause, effect, n=100)
        pair = [
            example.model.simulate(100_000, seed=1, do={cause: value})[effect].mean()
            for value in (found.at + 1, found.at)
        ]
        assert abs(found.mean - (pair[0] - pair[1])) < 3 * found.sd
        assert found.sd < 0.08 * example.data[effect].std()


def test_do_at_a_known_graph_has_the_exact_mean_and_variance():
    x = table().to_numpy()
    model = LinearGaussian.from_values(x)
    A = graph("ab", "bc", "dc")
    n = 60_000
    rows = certain(A, LinearParameters(model, None)).do({"a": 7, "d": np.float32(-1.0)}, n=n)
    assert (rows["a"] == 7.0).all()
    assert (rows["d"] == -1.0).all()
    centre, covariance, noise = regression(model, A, 1)
    at = np.array([1.0, 7.0])
    mean_b = at @ centre
    var_b = noise * (1 + at @ covariance @ at)
    centre, covariance, noise = regression(model, A, 2)  # parents b and d
    first = np.array([1.0, mean_b, -1.0])
    second = np.outer(first, first)
    second[1, 1] += var_b
    mean_c = first @ centre
    square_c = ((np.outer(centre, centre) + noise * covariance) * second).sum() + noise
    for name, mean, variance in (("b", mean_b, var_b), ("c", mean_c, square_c - mean_c**2)):
        assert abs(rows[name].mean() - mean) < 5 * np.sqrt(variance / n)
        assert rows[name].var() == pytest.approx(variance, rel=0.05)


def test_do_follows_the_same_units_through_two_interventions():
    posterior = svidag.exact.posterior(table())
    low, high = (posterior.do({"a": value}, n=300, seed=2) for value in (4.0, 6.0))
    reached = ancestors(posterior.sample(300, seed=2))[:, 0]
    for k, name in enumerate(NAMES[1:], start=1):
        same = low[name].to_numpy() == high[name].to_numpy()
        np.testing.assert_allclose(low[name][~reached[:, k]], high[name][~reached[:, k]])
        assert not same[reached[:, k]].any()


def test_the_default_starting_point_is_the_mean_of_untouched_rows():
    frame = table()
    mask = np.zeros(frame.shape, dtype=bool)
    mask[:10, 0] = True
    expected = frame["a"][10:].mean()
    standardised = svidag.exact.posterior(frame, interventions=mask)
    with pytest.warns(DataWarning, match="standard deviations differ"):
        as_it_is = svidag.exact.posterior(frame, interventions=mask, standardise=False)
    for posterior in (standardised, as_it_is):
        assert posterior.effect("a", "b", n=10).at == pytest.approx(expected)


@FAR
def test_transformed_columns_keep_their_transformed_units():
    frame = np.exp(table() / 10)
    data = svidag.Dataset.from_any(frame, transforms={"a": "log", "b": "log"})
    prior = Prior(required=[("a", "b")])
    found = svidag.exact.posterior(data, prior=prior).effect("a", "b", n=500)
    assert found.transforms == ("log", "log")
    assert found.at == pytest.approx(np.log(frame["a"]).mean())
    by_hand = np.log(frame[["a", "b"]]).join(frame[["c", "d"]])
    same = svidag.exact.posterior(by_hand, prior=prior).effect("a", "b", n=500)
    np.testing.assert_allclose(found.draws, same.draws, rtol=1e-9)
    assert "log(a)" in repr(found)
    assert "log" not in repr(same)


@pytest.mark.parametrize("hidden", [(5, 4), ()], ids=["network", "line"])
def test_parameters_of_networks_are_in_the_units_of_the_table(hidden):
    scaling = Scaling(centre=np.array([5.0, 0.1, -3.0, 2.0]), scale=np.array([10.0, 0.2, 3.0, 1.0]))
    mechanism = MLPMechanism(4, hidden=hidden, key=jax.random.key(1))
    distribution = NetworkParameters(
        Networks(BernoulliGuide(jnp.zeros((4, 4))), mechanism), scaling
    )
    A, n = graph("ac", "bc", "cd"), 6
    drawn = distribution.parameters(A, n, seed=3)
    rows = scaling.invert(np.random.default_rng(0).standard_normal((n, 7, 4)))
    noise = np.random.default_rng(1).standard_normal((n, 7, 4))
    for j in range(4):
        alone = np.repeat(np.arange(4)[None] == j, n, axis=0)
        expected = distribution.draw(np.repeat(A[None], n, axis=0), 3).propagate(rows, noise, alone)
        h = rows
        for layer in range(len(hidden) + 1):
            h = np.tanh(h) if layer else h
            h = h @ drawn[f"weights[{layer}]"][:, j] + drawn[f"biases[{layer}]"][:, None, j]
        ours = h[..., 0] + drawn["noise_sd"][:, None, j] * noise[..., j]
        np.testing.assert_allclose(ours, expected[..., j], rtol=1e-4, atol=1e-4 * scaling.scale[j])
    assert not drawn["weights[0]"][:, 2, [2, 3]].any()  # no parents of c
