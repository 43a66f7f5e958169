"""Mixed tables: Laplace evidence against quadrature, BGe within it, equivalence, effects."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, gammaln, log_expit, logsumexp

import svidag
from svidag.data import Dataset
from svidag.effects.densities import log_densities
from svidag.graph import members
from svidag.mechanisms.discrete_regression import SLOPE_SD, fit_categories, fit_ordered
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.mixed_screen import MOST_PARENTS, ScreenedMixed
from svidag.mechanisms.order_averaged import OrderAveraged

RNG = np.random.default_rng(3)


def table(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """x → group → y, and stage from y."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    group = np.where(rng.random(rows) < expit(1.5 * x), "b", "a")
    y = 1.5 * (group == "b") + rng.standard_normal(rows)
    stage = np.digitize(y + rng.logistic(size=rows), [-1.0, 1.0, 3.0])
    return pd.DataFrame({"x": x, "group": group, "y": y, "stage": stage})


def mechanism(frame: pd.DataFrame, **more) -> MixedMechanism:
    return MixedMechanism(Dataset.from_any(frame, **more).standardise()[0])


def test_laplace_evidence_of_two_levels_is_near_quadrature():
    x = RNG.standard_normal((40, 1))
    y = (RNG.random(40) < expit(0.5 + 1.2 * x[:, 0])).astype(int)
    found = fit_categories(x, np.eye(2)[y]).log_evidence
    a, b = np.meshgrid(np.linspace(-6, 7, 261), np.linspace(-6, 8, 281), indexing="ij")
    along = a[..., None] + b[..., None] * x[:, 0]
    log_p = np.where(y == 1, log_expit(along), log_expit(-along)).sum(axis=-1)
    log_p += -0.5 * (a**2 + b**2) / SLOPE_SD**2 - np.log(2 * np.pi * SLOPE_SD**2)
    assert found == pytest.approx(logsumexp(log_p) + np.log(0.05 * 0.05), abs=0.1)


def test_laplace_evidence_of_ordered_levels_is_near_quadrature():
    x = RNG.standard_normal((40, 1))
    y = np.digitize(x[:, 0] + RNG.logistic(size=40), [-1.0, 1.0])
    found = fit_ordered(x, np.arange(40), y, np.ones(40), 3).log_evidence
    grids = np.linspace(-5, 3, 41), np.linspace(0.05, 8, 54), np.linspace(-2, 5, 36)
    c, gap, w = np.meshgrid(*grids, indexing="ij")
    log_p = log_expit(c) + log_expit(-c) + log_expit(c + gap) + log_expit(-c - gap) + gammaln(3)
    log_p += -0.5 * w**2 / SLOPE_SD**2 - 0.5 * np.log(2 * np.pi * SLOPE_SD**2)
    for xn, level in zip(x[:, 0], y, strict=True):
        ends = [np.full(c.shape, -np.inf), c - w * xn, c + gap - w * xn, np.full(c.shape, np.inf)]
        log_p += np.log(expit(ends[level + 1]) - expit(ends[level]))
    cell = np.prod([grid[1] - grid[0] for grid in grids])
    assert found == pytest.approx(logsumexp(log_p) + np.log(cell), abs=0.1)


def test_three_categories_without_causes_are_near_quadrature():
    counts = np.array([[12.0, 5.0, 23.0]])
    found = fit_categories(np.zeros((1, 0)), counts).log_evidence
    u, v = np.meshgrid(np.linspace(-6, 6, 301), np.linspace(-6, 6, 301), indexing="ij")
    logits = np.stack([u, v, -(u + v)])  # contrasts of three levels, in other coordinates
    log_p = (counts[0, :, None, None] * (logits - logsumexp(logits, axis=0))).sum(axis=0)
    precision = 2.0 / SLOPE_SD**2
    log_p += -0.5 * precision * (logits**2).sum(axis=0) + np.log(precision / (2 * np.pi))
    jacobian = np.sqrt(3.0)  # of (u, v, −u − v) in orthonormal coordinates
    assert found == pytest.approx(logsumexp(log_p) + np.log(0.04**2 * jacobian), abs=0.05)


def test_grouped_rows_give_the_same_as_single_rows():
    frame = table(80)
    model = mechanism(frame.assign(x=np.round(frame["x"])), kinds={"x": "ordinal"})
    (one, _) = model.regressions(1, np.array([0]))
    features = model.features.values[:, model.features.members(np.array([0]), full=False)]
    level = model.data.values[:, 1].astype(int)
    assert one.log_evidence == pytest.approx(
        fit_categories(features, np.eye(2)[level]).log_evidence
    )


def test_continuous_columns_alone_have_bge():
    x = RNG.standard_normal((60, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.7], [0, 0, 1]])
    data = Dataset.from_any(x).standardise()[0]
    nodes, parents = np.array([0, 1, 2]), np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    expected = LinearGaussian.from_values(data.values).family_scores(nodes, parents)
    averaged = OrderAveraged(MixedMechanism(data))
    np.testing.assert_allclose(averaged.family_scores(nodes, parents), expected)
    np.testing.assert_allclose(ScreenedMixed(averaged).family_scores(nodes, parents), expected)


def test_the_evidence_is_the_average_over_orders_and_directs_nothing_within_a_class():
    model = mechanism(table(120))
    averaged = OrderAveraged(model)
    orders = list(itertools.permutations(range(3)))
    sums = []
    for order in orders:
        before = [np.isin(np.arange(4), order[:k]) for k in range(3)]
        sums.append(model.family_scores(np.array(order), np.array(before)).sum())
    joint = averaged.family_scores(
        np.arange(3), np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]], dtype=bool)
    ).sum()
    assert joint == pytest.approx(logsumexp(sums) - np.log(6))
    chain = np.zeros((4, 4), dtype=np.uint8)
    chain[[0, 1, 2], [1, 2, 3]] = 1
    totals = [averaged.family_scores(np.arange(4), g.T.astype(bool)).sum() for g in members(chain)]
    assert len(totals) == 4
    np.testing.assert_allclose(totals, totals[0])


def test_screened_and_exact_posteriors_agree_and_find_the_chain():
    frame = table(400)
    exact = svidag.fit(frame, method="exact", progress=False)
    found = svidag.fit(frame, bags=None, progress=False)
    assert exact.mechanism == found.mechanism == "mixed"
    probability = exact.edge_probabilities()
    assert abs(probability - found.edge_probabilities()).to_numpy().max() < 0.06
    linked = exact.adjacency_probabilities()
    assert min(linked.loc["x", "group"], linked.loc["group", "y"], linked.loc["y", "stage"]) > 0.99
    assert linked.loc["x", "stage"] < 0.1
    decided = found.decided(0.9)
    assert set(decided["direction"]) == {"open"}


@pytest.mark.parametrize("node", [0, 11])
def test_parents_that_explain_nothing_go_one_at_a_time(node):
    """The updates of one regression against a new regression for every parent and step."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((60, 11)) @ rng.standard_normal((11, 11))
    frame = pd.DataFrame(x, columns=[*"abcdefghijk"])
    frame["z"] = x[:, 3] - x[:, 5] + 3 * rng.logistic(size=60) > 0
    screened = ScreenedMixed(OrderAveraged(mechanism(frame)))
    for size in np.tile(np.arange(1, 11), 20):
        parents = np.zeros(12, dtype=bool)
        parents[rng.permutation(np.delete(np.arange(12), node))[:size]] = True
        kept = parents.copy()
        while kept.any():
            members_ = np.flatnonzero(kept)
            excess = screened._excess(node, members_)
            if excess.min() >= 1.0 and len(members_) <= MOST_PARENTS:
                break
            kept[members_[excess.argmin()]] = False
        found = screened.explaining(np.array([node]), parents[None])[0]
        assert found.tolist() == kept.tolist()


def test_interventions_direct_columns_of_different_kinds():
    rng = np.random.default_rng(1)
    rows = 400
    group = np.where(rng.random(rows) < 0.5, "b", "a")
    y = 1.5 * (group == "b") + rng.standard_normal(rows)
    mask = np.zeros((rows, 2), dtype=bool)
    mask[200:, 1] = True
    y[200:] = rng.standard_normal(200)
    frame = pd.DataFrame({"group": group, "y": y})
    found = svidag.fit(frame, interventions=mask, method="exact", progress=False)
    assert found.edge_probabilities().loc["group", "y"] > 0.99


@pytest.fixture(scope="module")
def posterior():
    prior = svidag.Prior(required=[("x", "group"), ("group", "y"), ("y", "stage")])
    return svidag.fit(table(600), prior=prior, method="exact", progress=False)


def test_effects_are_in_the_words_of_the_table(posterior):
    found = posterior.effect("group", "stage", at="a", to="b", value=3, n=50)
    assert found.quantity == "P(stage = 3)"
    assert found.sentence.startswith("P(stage = 3) rises from 0.")
    assert found.sentence.endswith("when group goes from a to b")
    rows = 40_000
    rng = np.random.default_rng(0)
    shares = [
        (1.5 * b + rng.standard_normal(rows) + rng.logistic(size=rows) > 3).mean() for b in (0, 1)
    ]
    assert found.words.before == pytest.approx(shares[0], abs=0.06)
    assert found.mean == pytest.approx(shares[1] - shares[0], abs=0.06)
    assert posterior.effect("group", "y", at="a", to="b", n=50).mean == pytest.approx(1.5, abs=0.3)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"cause": "group", "effect": "y", "to": "c"}, "to is 'c'; the values of 'group' are"),
        ({"cause": "group", "effect": "y", "change": 2.0}, "'group' is discrete: say from which"),
        ({"cause": "x", "effect": "stage", "value": 7}, "value is 7; the values of 'stage' are 0"),
        ({"cause": "x", "effect": "y", "value": 1}, "value is for discrete effects; 'y' is cont"),
    ],
)
def test_only_values_that_exist(posterior, asked, message):
    with pytest.raises(ValueError, match=message):
        posterior.effect(n=10, **asked)


def test_rows_under_an_intervention_have_labels(posterior):
    rows = posterior.do({"group": "b"}, n=40)
    assert set(rows["group"]) == {"b"}
    assert set(rows["stage"]) <= {0, 1, 2, 3}
    with pytest.raises(ValueError, match=r"do of .stage. is 1.5; the values of .stage. are 0, 1"):
        posterior.do({"stage": 1.5})


def test_predictions_of_a_discrete_column_are_probabilities(posterior):
    rows = pd.DataFrame({"x": [-2.0, 2.0], "y": [-1.0, 3.0], "stage": [0, 3]})
    found = posterior.predict(rows, n=20)
    assert list(found.columns) == [("group", "a"), ("group", "b")]
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found["group", "b"].iloc[0] < 0.1 < 0.9 < found["group", "b"].iloc[1]
    means = posterior.predict(pd.DataFrame({"x": [0.0, 0.0], "group": ["a", "b"], "stage": [1, 1]}))
    assert means["y"].iloc[1] > means["y"].iloc[0] + 0.5
    with pytest.raises(ValueError, match="'y' cannot be predicted together with discrete"):
        posterior.predict(rows[["x", "stage"]])
    assert np.isfinite(posterior.predictive_log_likelihood(table(5), n=10)).all()


def test_densities_of_a_mixture_where_a_fit_has_none_of_the_graphs():
    """As when `predict` asks for those of few draws, which other fits of the mixture have."""
    mixture = svidag.fit(table(120), method="exact", bags=3, bag_rows=100, progress=False)
    equations = mixture.mechanisms.draw(mixture.sample(3), 0)
    assert len(equations.rows) > 1
    first = equations.rows[0][:1]
    found = log_densities(equations, np.array([0]), mixture.problem.values[:2], first)
    alone = log_densities(
        equations.parts[0], np.array([0]), mixture.problem.values[:2], np.zeros(1, int)
    )
    np.testing.assert_array_equal(found, alone)


def test_saved_and_loaded_it_answers_the_same(posterior, tmp_path):
    posterior.save(tmp_path / "fit.svidag")
    again = svidag.load(tmp_path / "fit.svidag")
    assert again.problem.data.levels == posterior.problem.data.levels
    first, second = (p.effect("group", "y", n=10).mean for p in (posterior, again))
    assert first == second


def test_the_report_tells_effects_in_sentences(posterior, tmp_path):
    page = posterior.report(tmp_path / "page.html").read_text()
    assert "when group goes from" in page
    assert "categorical" in page or "binary" in page


def test_counts_are_whole_numbers_from_zero_on():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300)
    visits = rng.poisson(np.exp(1.0 + 0.5 * x))
    frame = pd.DataFrame({"x": x, "visits": visits})
    prior = svidag.Prior(required=[("x", "visits")])
    found = svidag.fit(
        frame, kinds={"visits": "count"}, prior=prior, method="exact", progress=False
    )
    rows = found.do({"x": 1.0}, n=400)
    assert (rows["visits"] == rows["visits"].round()).all()
    assert rows["visits"].min() >= 0
    assert rows["visits"].mean() == pytest.approx(np.exp(1.5), rel=0.3)
    log_p = found.predictive_log_likelihood(
        pd.DataFrame({"x": np.zeros(60), "visits": np.arange(60.0)}), n=20
    )
    x_alone = -0.5 * np.log(2 * np.pi)
    assert np.exp(log_p - x_alone).sum() == pytest.approx(1.0, abs=0.15)
    with pytest.raises(ValueError, match=r"do of 'visits' is 1.5; a count is a whole number"):
        found.do({"visits": 1.5})
