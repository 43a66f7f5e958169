"""Expected information against sums over all graphs, and densities against what they add up to."""

import html

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import svidag
from svidag.effects import densities, information
from svidag.effects.densities import Families, linear_predictive, log_densities
from svidag.graph import all_dags
from svidag.mechanisms.equations import ParameterDistribution
from svidag.mechanisms.linear import STANDARDISED_SCALE, LinearGaussian

ROWS, VALUES = 25, (-1.5, 1.5)


@pytest.fixture(scope="module")
def four():
    example = svidag.datasets.synthetic(m=4, edges=4, n=60, seed=5)
    return svidag.exact.posterior(example.data)


def simulated(posterior, target, size, seed):
    """Rows of experiments, in the units of the table."""
    graphs = posterior.sample(size, seed)
    noise = np.random.default_rng(seed).standard_normal((size, ROWS, 4))
    values = np.full(noise.shape, np.nan)
    values[:, :, target] = np.resize(VALUES, ROWS)
    free = np.ones((size, 4), dtype=bool)
    free[:, target] = False
    return posterior.mechanisms.draw(graphs, seed).propagate(values, noise, free)


def bge(values, intervened=None):
    return LinearGaussian.from_values(values, intervened, prior_scale=STANDARDISED_SCALE)


def enumerated(posterior, target, outcomes):
    """Information about the graph, by all 543 graphs and evidences of the enlarged table."""
    problem, graphs = posterior.problem, all_dags(4)
    before = posterior.graphs.log_probability(graphs)
    nodes, parents = np.nonzero(np.ones((len(graphs), 4)))[1], graphs.swapaxes(1, 2).reshape(-1, 4)
    asked = nodes, parents.astype(bool)

    def evidence(model):
        scores = model.family_scores(*asked).reshape(-1, 4)
        return np.delete(scores, target, axis=1).sum(axis=1)

    first = evidence(bge(problem.data.values))
    bits = []
    for rows in outcomes:
        joined = np.concatenate([problem.data.values, problem.scaling.apply(rows)])
        mask = np.zeros(joined.shape, dtype=bool)
        mask[-ROWS:, target] = True
        gain = evidence(bge(joined, mask)) - first
        after = before + gain - logsumexp(before + gain)
        bits.append((np.exp(after) * (after - before))[before > -np.inf].sum() / np.log(2))
    return np.array(bits)


def test_information_about_the_graph_agrees_with_enumeration(four, monkeypatch):
    monkeypatch.setattr(information, "GRAPHS", 3000)
    values = {name: list(VALUES) for name in four.names}
    found = four.next_experiments(ROWS, values=values, n=250, seed=1)
    measured = {name: (bits, error) for name, _, bits, error in found.rows()}
    design = information.GraphDesign.of(four, 1)
    truth = []
    for target, name in enumerate(four.names):
        outcomes = simulated(four, target, 150, seed=11)
        exact = enumerated(four, target, outcomes)
        (found_bits,) = design.bits([design.terms(outcomes, target)], np.zeros(150, dtype=int))
        assert abs(found_bits.mean() - exact.mean()) < 0.02, name
        bits, error = measured[name]
        assert abs(bits - exact.mean()) < 4 * np.hypot(error, exact.std() / np.sqrt(150)), name
        truth.append(exact.mean())
    assert max(truth) > 2 * min(truth)  # the variables do differ
    assert found.names[-1] == four.names[int(np.argmin(truth))]


class Sampled(ParameterDistribution):
    """Linear parameters without their closed form."""

    def __init__(self, linear):
        self.linear = linear

    def parameters(self, graph, n, seed):
        return self.linear.parameters(graph, n, seed)

    def draw(self, graphs, seed, nodes=None):
        return self.linear.draw(graphs, seed, nodes)


def test_the_closed_form_is_the_mean_over_parameters(four, monkeypatch):
    monkeypatch.setattr(densities, "PARAMETERS", 40_000)
    rows = simulated(four, 0, 4, seed=2)[:, :3]
    for node, parents in ((1, [0, 2]), (3, []), (2, [0, 1, 3])):
        members = np.array(parents, dtype=np.int64)
        exact = linear_predictive(four.mechanisms, node, members, rows)
        drawn = Families(Sampled(four.mechanisms), 0).log_predictive(node, members, rows)
        np.testing.assert_allclose(drawn, exact, atol=0.03)


def test_the_closed_form_is_the_change_of_the_evidence(four):
    problem = four.problem
    rows = simulated(four, 0, 3, seed=4)
    parents = np.array([[True, False, True, False]])
    before = bge(problem.data.values).family_scores(np.array([1]), parents)
    found = linear_predictive(four.mechanisms, 1, np.array([0, 2]), rows)
    for new, value in zip(rows, found, strict=True):
        joined = np.concatenate([problem.data.values, problem.scaling.apply(new)])
        after = bge(joined).family_scores(np.array([1]), parents)
        jacobian = ROWS * np.log(problem.scaling.scale[1])
        assert value == pytest.approx((after - before)[0] - jacobian, abs=1e-6)


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear", "flexible", "mixture"])
def test_densities_of_nodes_add_up_to_that_of_the_row(mechanism):
    data = svidag.datasets.synthetic(m=3, edges=3, n=80, seed=1).data
    if mechanism == "mixture":
        posterior = svidag.fit(data, bags=3, progress=False)
    else:
        posterior = svidag.exact.posterior(data, mechanism=mechanism)
    equations = posterior.mechanisms.draw(posterior.sample(6, 0), 0)
    rows = data.to_numpy()
    parts = [log_densities(equations, np.full(6, j), rows) for j in range(3)]
    np.testing.assert_allclose(sum(parts), equations.log_likelihood(rows), atol=1e-6)
    chosen = np.array([4, 1])
    some = log_densities(equations, np.array([2, 0]), rows, chosen)
    np.testing.assert_allclose(some, [parts[2][4], parts[0][1]], atol=1e-9)


def test_interpolated_noise_densities_are_close(monkeypatch):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.exponential(size=150), "b": rng.standard_t(3, size=150)})
    data["b"] += data["a"]
    posterior = svidag.exact.posterior(data, mechanism="flexible")
    equations = posterior.mechanisms.draw(posterior.sample(4, 0), 0)
    rows = np.random.default_rng(1).normal(0, 4, size=(3000, 2))
    fast = log_densities(equations, np.ones(4, dtype=np.int64), rows)
    monkeypatch.setattr(densities, "MANY", 10_000)
    slow = log_densities(equations, np.ones(4, dtype=np.int64), rows)
    assert np.abs(fast - slow).max() < 2e-3


def test_information_about_an_effect_agrees_with_weighing_full_draws(four):
    """Without averaging over parameters beforehand: 20 000 draws of graph and parameters."""
    about, target, size = ("x1", "x3"), 0, 60
    values = {name: list(VALUES) for name in four.names}
    found = four.next_experiments(ROWS, about=about, values=values, n=200, seed=1)
    graphs = four.sample(20_000, 9)
    equations = four.mechanisms.draw(graphs, 9)
    values = equations.total_effects()[:, 0, 2]
    edges = np.quantile(values[values != 0], np.arange(1, 8) / 8)
    group = np.where(values == 0, 0, 1 + np.searchsorted(edges, values))
    share = np.bincount(group) / len(group)
    bits = []
    for rows in simulated(four, target, size, seed=13):
        terms = [log_densities(equations, np.full(len(graphs), j), rows) for j in (1, 2, 3)]
        weights = np.sum(terms, axis=(0, 2))
        after = np.bincount(group, np.exp(weights - weights.max()))
        after /= after.sum()
        kept = after > 0
        bits.append((after[kept] * np.log2(after[kept] / share[kept])).sum())
    place = found.names.index("x1")
    error = np.hypot(np.std(bits) / np.sqrt(size), found.standard_error[place])
    assert abs(np.mean(bits) - found.bits[place]) < 4 * error + 0.03
    assert found.uncertainty == pytest.approx(-(share * np.log2(share)).sum(), abs=0.2)


def test_drawn_parameters_give_a_lower_bound_that_is_close(four, monkeypatch):
    """The same outcomes, with and without the closed form of the parameters' average."""
    monkeypatch.setattr(densities, "PARAMETERS", 200)
    exact = information.GraphDesign.of(four, 1)
    drawn = information.GraphDesign(
        exact.group, tuple((Families(Sampled(f.distribution), 0), g) for f, g in exact.families)
    )
    outcomes = exact.outcomes(400, ROWS, seed=3)
    for target in (0, 2):
        rows = outcomes.simulate(target, np.resize(VALUES, ROWS))
        (truth,) = exact.bits([exact.terms(rows, target)], outcomes.truth)
        (bound,) = drawn.bits([drawn.terms(rows, target)], outcomes.truth)
        error = np.hypot(truth.std(), bound.std()) / np.sqrt(400)
        assert bound.mean() < truth.mean() + 3 * error
        assert bound.mean() > truth.mean() - 3 * error - 0.15


def test_an_intervention_tells_the_direction_of_two_and_observing_does_not():
    posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=400).data)
    found = posterior.next_experiments(rows=60, n=60)
    assert found.observing < 0.05
    assert found.bits.min() > 0.9  # of the one bit that is open
    assert found.uncertainty == pytest.approx(1.0, abs=0.1)
    assert "0.9" in repr(found) or "1.0" in repr(found)


def test_a_mixture_and_flexible_mechanisms_have_experiments():
    data = svidag.datasets.synthetic(m=3, edges=2, n=80, seed=1).data
    for posterior in (
        svidag.fit(data, bags=3, progress=False),
        svidag.exact.posterior(data, mechanism="flexible"),
    ):
        found = posterior.next_experiments(rows=10, n=4)
        assert (found.bits <= found.limit + 1e-9).all()
        effect = posterior.next_experiments(rows=5, n=3, about=("x1", "x2"))
        assert effect.about == ("x1", "x2")


def test_values_are_as_stated_and_the_seed_decides(four):
    one = four.next_experiments(10, values={"x2": 3.0}, n=5, seed=3)
    assert one.values[one.names.index("x2")] == (3.0,)
    assert one.to_dict() == four.next_experiments(10, values={"x2": 3.0}, n=5, seed=3).to_dict()
    column = four.problem.scaling.invert(four.problem.data.values)[:, 0]
    low, high = one.values[one.names.index("x1")]
    assert np.isclose(column, low).any()
    assert np.isclose(column, high).any()
    assert list(one.to_frame()) == ["set to", "bits", "standard error"]


def test_a_notebook_shows_title_table_and_notes(four):
    found = four.next_experiments(10, n=5, seed=3)
    page = found._repr_html_()
    assert all(f"<p>{html.escape(line)}</p>" in page for line in (found.title, *found.notes))
    assert page.count("<table") == 1


def test_values_of_a_transformed_column_say_so():
    data = svidag.datasets.two_node("linear", n=60).data
    data["x1"] = np.exp(data["x1"])
    posterior = svidag.fit(data, transforms={"x1": "log"}, mechanism="linear", progress=False)
    shown = posterior.next_experiments(5, n=3).to_frame()["set to"]
    assert shown["x1"].endswith("(log)")
    assert not shown["x2"].endswith("(log)")
