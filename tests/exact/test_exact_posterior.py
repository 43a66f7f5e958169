"""`svidag.exact` against the sum over all orders and all graphs, written out in loops."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp

import svidag
from svidag import Prior
from svidag.exact import structures
from svidag.graph import are_dags
from svidag.mechanisms.linear import STANDARDISED_SCALE, LinearGaussian
from svidag.mechanisms.wide import WideNetwork

NAMES = ("a", "b", "c", "d")
PRIORS = {
    "default": Prior(),
    "unequal": Prior(
        p=0.3, beliefs={("a", "b"): 0.9, ("c", "a"): 0.05, ("d", "c"): 0.7}, shrink_to=0.4
    ),
    "symmetric": Prior(p=0.3, beliefs={("a", "b"): 0.8, ("b", "a"): 0.8}),
    "required": Prior(p=0.2, required=[("c", "a"), ("a", "d")]),
    "forbidden": Prior(p=0.4, forbidden=[("a", "b"), ("b", "c")]),
    "tiers": Prior(p=0.4, tiers=[["b", "d"], ["a", "c"]]),
    "mixed": Prior(
        p=0.3,
        beliefs={("c", "d"): 0.9},
        required=[("b", "c")],
        forbidden=[("d", "a")],
        tiers=[["b"], ["a", "c", "d"]],
    ),
}


def table(intervene: bool, n: int = 40, m: int = 4):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, m))
    x[:, 1] += 0.8 * x[:, 0]
    x[:, 2] += 0.5 * x[:, 1] - 0.5 * x[:, 3]
    mask = np.zeros((n, m), dtype=bool)
    if intervene:
        mask[: n // 4, 1] = True
        mask[n // 4 : n // 2, 2] = True
        x[mask] = 2.0 * rng.standard_normal(mask.sum())
    return x, mask


def brute_force(x, mask, prior, graph_weights, standardise=True, build=None):
    """Sum over every order and, within it, every choice of parent sets."""
    m = x.shape[1]
    names = NAMES[:m] if m <= 4 else (*NAMES, "e")[:m]
    bound = prior.bind(names)
    data = svidag.Dataset.from_any(x, names=names, interventions=mask)
    scale = None
    if standardise:
        (data, _), scale = data.standardise(), STANDARDISED_SCALE
    build = build or partial(LinearGaussian.from_values, prior_scale=scale)
    model = build(data.values, intervened=data.intervened)
    score = {}
    for j in range(m):
        for parents in itertools.product((0, 1), repeat=m):
            if not parents[j]:
                family = np.array([j]), np.array([parents], dtype=bool)
                score[j, parents] = model.family_scores(*family)[0]
    log_joint, log_prior = {}, {}
    for order in itertools.permutations(range(m)):
        choices = []
        for position, j in enumerate(order):
            sets = []
            earlier = order[:position]
            for size in range(position + 1):
                for chosen in itertools.combinations(earlier, size):
                    weight = 0.0
                    for i in range(m):
                        if bound.required[i, j]:
                            weight += 0.0 if i in chosen else -np.inf
                        elif i in earlier:
                            p = bound.marginal[i, j]
                            with np.errstate(divide="ignore"):
                                weight += np.log(p) if i in chosen else np.log1p(-p)
                    row = tuple(int(i in chosen) for i in range(m))
                    sets.append((j, row, weight))
            choices.append([s for s in sets if np.isfinite(s[2])])
        for pick in itertools.product(*choices):
            graph = np.zeros((m, m), dtype=np.uint8)
            for j, row, _ in pick:
                graph[:, j] = row
            key = graph.tobytes()
            prior_weight = sum(w for _, _, w in pick)
            log_prior.setdefault(key, []).append(prior_weight)
            log_joint.setdefault(key, []).append(
                prior_weight + sum(score[j, r] for j, r, _ in pick)
            )
    average = np.log([len(v) for v in log_prior.values()]) * (graph_weights == "structure")
    joint = np.array([logsumexp(v) for v in log_joint.values()]) - average
    prior_mass = np.array([logsumexp(v) for v in log_prior.values()]) - average
    graphs = np.stack([np.frombuffer(k, dtype=np.uint8).reshape(m, m) for k in log_joint])
    probability = np.exp(joint - logsumexp(joint))
    return graphs, probability, logsumexp(joint) - logsumexp(prior_mass)


@pytest.mark.parametrize("graph_weights", ["order", "structure"])
@pytest.mark.parametrize("intervene", [False, True], ids=["observed", "intervened"])
@pytest.mark.parametrize("kind", PRIORS)
def test_equals_the_sum_over_all_orders(kind, intervene, graph_weights):
    x, mask = table(intervene)
    posterior = svidag.exact.posterior(
        svidag.Dataset.from_any(x, names=NAMES, interventions=mask),
        prior=PRIORS[kind],
        graph_weights=graph_weights,
    )
    graphs, probability, log_evidence = brute_force(x, mask, PRIORS[kind], graph_weights)
    edges = np.einsum("k,kij->ij", probability, graphs.astype(float))
    np.testing.assert_allclose(posterior.edge_probabilities().to_numpy(), edges, atol=1e-9)
    np.testing.assert_allclose(
        np.exp(posterior.graphs.log_probability(graphs)), probability, atol=1e-9
    )
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=1e-8)


@pytest.mark.parametrize("graph_weights", ["order", "structure"])
def test_five_variables_without_standardising(graph_weights):
    x, mask = table(True, m=5)
    prior = Prior(p=0.35, beliefs={("a", "b"): 0.9}, required=[("d", "e")])
    posterior = svidag.exact.posterior(
        svidag.Dataset.from_any(x, names=(*NAMES, "e"), interventions=mask),
        prior=prior,
        standardise=False,
        graph_weights=graph_weights,
    )
    graphs, probability, log_evidence = brute_force(x, mask, prior, graph_weights, False)
    edges = np.einsum("k,kij->ij", probability, graphs.astype(float))
    np.testing.assert_allclose(posterior.edge_probabilities().to_numpy(), edges, atol=1e-9)
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=1e-8)


@pytest.mark.parametrize("graph_weights", ["order", "structure"])
def test_nonlinear_mechanisms_equal_the_sum_over_all_orders(graph_weights):
    x, mask = table(True)
    x[:, 2] += np.abs(x[:, 0])
    posterior = svidag.exact.posterior(
        svidag.Dataset.from_any(x, names=NAMES, interventions=mask),
        prior=PRIORS["unequal"],
        mechanism="nonlinear",
        graph_weights=graph_weights,
        units=8,
        seed=4,
    )
    build = partial(WideNetwork.from_values, names=NAMES, units=8, seed=4)
    graphs, probability, log_evidence = brute_force(
        x, mask, PRIORS["unequal"], graph_weights, build=build
    )
    edges = np.einsum("k,kij->ij", probability, graphs.astype(float))
    np.testing.assert_allclose(posterior.edge_probabilities().to_numpy(), edges, atol=1e-9)
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=1e-8)
    assert posterior.mechanism == "nonlinear"


@pytest.mark.parametrize("kind", ["unequal", "mixed"])
def test_parent_set_probabilities_sum_to_one(kind):
    x, mask = table(True)
    distribution = svidag.exact.posterior(
        svidag.Dataset.from_any(x, names=NAMES, interventions=mask), prior=PRIORS[kind]
    ).graphs
    assert isinstance(distribution, svidag.exact.orders.ExactOrders)
    np.testing.assert_allclose(distribution.parent_set_probabilities().sum(axis=1), 1.0, atol=1e-10)


@pytest.mark.parametrize("graph_weights", ["order", "structure"])
@pytest.mark.parametrize("kind", PRIORS)
def test_draws_match_the_probabilities_and_keep_the_knowledge(kind, graph_weights):
    x, mask = table(True)
    posterior = svidag.exact.posterior(
        svidag.Dataset.from_any(x, names=NAMES, interventions=mask),
        prior=PRIORS[kind],
        graph_weights=graph_weights,
    )
    draws = posterior.sample(20_000, seed=1)
    assert are_dags(draws).all()
    graphs, probability, _ = brute_force(x, mask, PRIORS[kind], graph_weights)
    # A graph's count is binomial; 4.9 standard errors on some 500 graphs: fails once in 2000 runs.
    index = {g.tobytes(): k for k, g in enumerate(graphs)}
    count = np.bincount([index[d.tobytes()] for d in draws], minlength=len(graphs))
    spread = np.sqrt(len(draws) * probability * (1 - probability))
    assert (np.abs(count - len(draws) * probability) <= 4.9 * spread + 3).all()
    bound = PRIORS[kind].bind(NAMES)
    assert (draws >= bound.required).all()
    assert not draws[:, ~bound.allowed].any()


def test_structures_equals_enumeration_on_five_variables():
    x, _ = table(False, m=5)
    data = svidag.Dataset.from_any(x, names=(*NAMES, "e"))
    posterior = svidag.exact.posterior(data, graph_weights="structure")
    assert isinstance(posterior.graphs, structures.ExactStructures)
    listed, _ = structures.enumerated(posterior.graphs.weights)
    np.testing.assert_allclose(
        posterior.graphs.edge_probabilities(), listed.edge_probabilities(), atol=1e-9
    )


def test_a_required_edge_that_the_data_deny_is_in_every_draw():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 3))
    posterior = svidag.exact.posterior(x, prior=Prior(required=[("x3", "x1")]))
    assert posterior.sample(200)[:, 2, 0].all()
    assert posterior.edge_probabilities().loc["x3", "x1"] == pytest.approx(1.0, abs=1e-12)


def test_draws_repeat_by_seed():
    x, _ = table(False)
    posterior = svidag.exact.posterior(x)
    assert (posterior.sample(50, seed=4) == posterior.sample(50, seed=4)).all()
    assert (posterior.sample(50, seed=4) != posterior.sample(50, seed=5)).any()


@pytest.mark.parametrize(
    ("m", "prior", "graph_weights", "limit"),
    [
        (21, Prior(), "order", "20"),
        (15, Prior(), "structure", "13"),
        (6, Prior(forbidden=[("x1", "x2")]), "structure", "5"),
    ],
)
def test_too_many_variables_says_the_limit(m, prior, graph_weights, limit):
    x = np.random.default_rng(0).standard_normal((60, m))
    with pytest.raises(ValueError, match=f"at most {limit} variables; this table has {m}"):
        svidag.exact.posterior(x, prior=prior, graph_weights=graph_weights)


def test_unknown_choices_are_named():
    x, _ = table(False)
    with pytest.raises(ValueError, match=r"graph_weights must be one of .*; got 'uniform'"):
        svidag.exact.posterior(x, graph_weights="uniform")
    with pytest.raises(ValueError, match=r"has the mechanisms 'linear'.*; got 'quadratic'"):
        svidag.exact.posterior(x, mechanism="quadratic")
