"""Inference by guide and kept parent sets, from start to end, against the exact posterior."""

import numpy as np
import pytest

import svidag
from svidag import Prior
from svidag.exact.orders import ExactOrders, parent_weights
from svidag.graph import are_dags
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.local import CachedScores
from svidag.run.checkpoint import Checkpoint
from svidag.variational.node_inference import NodeInference
from svidag.variational.settings import VariationalSettings

KNOWN = Prior(
    p=0.3, required=[("x1", "x5")], forbidden=[("x2", "x3")], tiers=[["x1", "x2"], ["x4", "x6"]]
)


def problem(prior, m=6, n=60):
    example = svidag.datasets.synthetic(m, m + 2, n, seed="guided", interventions=0.2)
    data = svidag.Dataset.from_any(example.data, interventions=example.interventions)
    data, _ = data.standardise()
    beliefs = prior.bind(data.names)
    model = LinearGaussian.from_values(data.values, data.intervened)
    distribution = ExactOrders.build(
        parent_weights(model.score_tables(), beliefs), beliefs.required
    )
    return model, beliefs, distribution.edge_probabilities()


QUICK = {
    "iterations": 60, "rounds": 300, "sweeps": 20, "width": 8, "levels": 4, "flattest": 0.1,
    "covering": 30, "copies": 1,
}  # fmt: skip


def quick(**changes):
    return VariationalSettings(**{**QUICK, **changes})


@pytest.mark.parametrize(("guide", "prior"), [("mean-field", Prior()), ("flow", KNOWN)])
def test_edges_are_those_of_the_exact_posterior(guide, prior):
    model, beliefs, exact = problem(prior)
    # Few sets are kept, so that a good part of the evidence is the guide's to estimate.
    found = NodeInference(model, beliefs, quick(guide=guide, capacity=12, draws=16)).run(seed=0)
    error = np.abs(found.edge_probabilities - exact)
    assert error.mean() < 0.01
    assert error.max() < 0.05
    assert found.known_share < 0.999
    graphs = found.sampling.graphs.reshape(-1, 6, 6)
    assert are_dags(graphs).all()
    assert (graphs >= beliefs.required).all()
    assert not graphs[:, ~beliefs.allowed].any()
    place = np.argsort(found.sampling.orders.reshape(-1, 6), axis=1)
    assert (place[:, :, None] < place[:, None, :])[graphs == 1].all()


def test_a_second_mode_is_found_and_weighed():
    """Two groups of orders with 0.69 and 0.31 of the mass, and hardly a path between them."""
    example = svidag.datasets.synthetic(10, 14, 500, seed="tune|1")
    data, _ = svidag.Dataset.from_any(example.data).standardise()
    model, beliefs = LinearGaussian.from_values(data.values), Prior().bind(data.names)
    settings = quick(guide="mean-field", iterations=100)
    found = NodeInference(model, beliefs, settings).run(seed=0)
    exact = svidag.exact.posterior(example.data).edge_probabilities().to_numpy()
    assert abs(exact[1, 6] - 0.69) < 0.01
    assert np.abs(found.edge_probabilities - exact).max() < 0.05
    assert found.missing < 1


def test_without_correction_graphs_are_the_guides():
    model, beliefs, exact = problem(KNOWN)
    found = {
        how: NodeInference(
            model,
            beliefs,
            quick(guide="mean-field", iterations=3, covering=0, learning_rate=1e-3, correction=how),
        ).run(seed=0)
        for how in ("pseudo-marginal", "none")
    }
    error = {how: np.abs(run.edge_probabilities - exact).max() for how, run in found.items()}
    assert error["pseudo-marginal"] < 0.05
    assert error["none"] > 0.2
    # A guide that was hardly trained draws each edge as the prior has it, given the order.
    none = found["none"].sampling
    place = np.argsort(none.orders, axis=2)
    before = (place[..., :, None] < place[..., None, :]).mean(axis=(0, 1))
    expected = np.where(beliefs.required, 1.0, beliefs.marginal) * before * beliefs.allowed
    assert np.abs(found["none"].edge_probabilities - expected).max() < 0.05
    graphs = none.graphs.reshape(-1, 6, 6)
    assert are_dags(graphs).all()
    assert (graphs >= beliefs.required).all()
    assert not graphs[:, ~beliefs.allowed].any()
    assert np.abs(graphs.mean(axis=0) - found["none"].edge_probabilities).max() < 0.1


def test_same_seed_same_result_and_cached_scores_change_nothing():
    model, beliefs, _ = problem(Prior())
    settings = quick(guide="mean-field", iterations=20, rounds=10)
    one, two = (NodeInference(model, beliefs, settings).run(seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.sampling.graphs, two.sampling.graphs)
    np.testing.assert_array_equal(one.edge_probabilities, two.edge_probabilities)
    other = NodeInference(model, beliefs, settings).run(seed=4)
    assert (one.edge_probabilities != other.edge_probabilities).any()
    cached = NodeInference(CachedScores(model), beliefs, settings).run(seed=3)
    np.testing.assert_allclose(cached.edge_probabilities, one.edge_probabilities, atol=0.1)


def test_a_run_cut_off_anywhere_goes_on_to_the_same_result(tmp_path):
    """Cut off in training, in covering, after their last steps, and between segments of rounds."""
    model, beliefs, _ = problem(KNOWN)
    settings = quick(iterations=5, covering=2, copies=2, rounds=12, check_every=4, agreement=0.0)

    def run(**arguments):
        inference = NodeInference(CachedScores(model), beliefs, settings)
        return inference.run(seed=3, **arguments)

    paths = []

    def keep(snapshot):
        paths.append(tmp_path / str(len(paths)))
        Checkpoint(paths[-1], {}).keep("guide", snapshot)

    whole = run(keep=keep)
    assert len(paths) == 1 + 5 + 1 + 2 + 3
    for at in (0, 2, 5, 7, 8, 10):
        resumed = run(resume=Checkpoint(paths[at], {}).load().state)
        np.testing.assert_array_equal(resumed.sampling.graphs, whole.sampling.graphs)
        np.testing.assert_array_equal(resumed.edge_probabilities, whole.edge_probabilities)
        np.testing.assert_array_equal(resumed.bounds, whole.bounds)


def test_rounds_that_were_resumed_are_not_forgotten_before_the_next_segment(tmp_path):
    model, beliefs, _ = problem(Prior())
    inference = NodeInference(
        model,
        beliefs,
        quick(guide="mean-field", iterations=3, rounds=8, check_every=4, agreement=0.0),
    )
    first, again = [], []
    inference.run(seed=0, keep=first.append)
    checkpoint = Checkpoint(tmp_path / "half", {})
    checkpoint.keep("guide", first[-2])
    half = checkpoint.load().state
    assert half.sampling.length == 4
    inference.run(seed=0, resume=half, keep=lambda snapshot: again.append(snapshot()))
    assert [state.sampling.length for state in again] == [4, 4, 8]


def test_settings_are_checked():
    with pytest.raises(
        ValueError, match=r"guide must be one of \['flow', .*'mean-field'\]; got 'for"
    ):
        VariationalSettings(guide="forest")
    with pytest.raises(ValueError, match=r"bound must be one of \['tight', 'published'\]; got 'x'"):
        VariationalSettings(bound="x")
    with pytest.raises(ValueError, match=r"edge_gradient must be one of .*'straight-through'"):
        VariationalSettings(edge_gradient="exact")
    with pytest.raises(ValueError, match=r"correction must be one of .*'none'"):
        VariationalSettings(correction="no")
    with pytest.raises(ValueError, match=r"moves must be one of .*'swap'"):
        VariationalSettings(moves="jump")
    with pytest.raises(ValueError, match=r"bound='published' .* needs a flow"):
        VariationalSettings(guide="mean-field", bound="published")
    with pytest.raises(ValueError, match="rounds must be at least 1; got 0"):
        VariationalSettings(rounds=0)
    with pytest.raises(ValueError, match=r"rounds must be at least thin = 4.*got 3"):
        VariationalSettings(rounds=3, thin=4)
    with pytest.raises(ValueError, match="check_every must be a multiple of thin = 2; got 5"):
        VariationalSettings(check_every=5)
    with pytest.raises(ValueError, match="flattest must be above 0"):
        VariationalSettings(flattest=0.0)
