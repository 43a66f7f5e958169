"""BGe: score equivalence, its closed form against direct integration, interventions."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from svidag.graph import all_dags, cpdag
from svidag.mechanisms.linear import LinearGaussian


def values(n=30, m=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) @ (np.eye(m) + 0.6 * np.triu(rng.standard_normal((m, m)), 1))


def total(model, graph):
    return model.family_scores(np.arange(len(graph)), graph.T.astype(bool)).sum()


def score(model, node, parents):
    return model.family_scores(np.array([node]), np.array([parents], dtype=bool))[0]


def test_every_member_of_a_markov_class_has_the_same_evidence():
    model = LinearGaussian.from_values(values(n=200))
    classes = {}
    for graph in all_dags(4):
        classes.setdefault(cpdag(graph).tobytes(), []).append(total(model, graph))
    assert len(classes) == 185
    assert max(np.ptp(scores) for scores in classes.values()) < 1e-8
    means = np.sort([np.mean(scores) for scores in classes.values()])
    assert np.diff(means).min() > 1e-8  # and different classes are distinguished


def test_a_parentless_node_is_a_sequence_of_student_predictions():
    """f_j(∅) is the chain of one-step predictive densities of a normal–inverse-gamma model."""
    x = values(n=12, m=3)
    model = LinearGaussian.from_values(x)
    shape, kappa, mean = 0.5 * (model.scale_weight - model.m + 1), model.mean_weight, 0.0
    rate, log_p = 0.5 * model.prior_scale, 0.0
    for value in x[:, 0]:
        scale = rate * (kappa + 1) / (shape * kappa)
        log_p += multivariate_t.logpdf(value, loc=mean, shape=scale, df=2 * shape)
        rate += 0.5 * kappa * (value - mean) ** 2 / (kappa + 1)
        mean = (kappa * mean + value) / (kappa + 1)
        kappa, shape = kappa + 1, shape + 0.5
    assert score(model, 0, [0, 0, 0]) == pytest.approx(log_p, abs=1e-9)


def test_the_complete_graph_is_a_sequence_of_multivariate_student_predictions():
    x = values(n=10, m=3, seed=4)
    model = LinearGaussian.from_values(x)
    m, kappa, dof = 3, model.mean_weight, model.scale_weight
    mean, scale, log_p = np.zeros(m), model.prior_scale * np.eye(m), 0.0
    for row in x:
        df = dof - m + 1
        log_p += multivariate_t.logpdf(
            row, loc=mean, shape=scale * (kappa + 1) / (kappa * df), df=df
        )
        scale = scale + kappa / (kappa + 1) * np.outer(row - mean, row - mean)
        mean = (kappa * mean + row) / (kappa + 1)
        kappa, dof = kappa + 1, dof + 1
    graph = np.triu(np.ones((m, m), dtype=np.uint8), 1)
    assert total(model, graph) == pytest.approx(log_p, abs=1e-9)


def test_tables_hold_every_local_score():
    x = values(n=25, m=4)
    mask = np.zeros(x.shape, dtype=bool)
    mask[:5, 2] = True
    model = LinearGaussian.from_values(x, mask)
    table = model.score_tables()
    for j in range(4):
        for code in range(16):
            parents = (code >> np.arange(4)) & 1
            if parents[j]:
                assert table[j, code] == -np.inf
            else:
                assert table[j, code] == pytest.approx(score(model, j, parents), abs=1e-10)


def test_intervened_rows_are_left_out_of_their_own_node_only():
    x = values(n=40, m=3)
    mask = np.zeros(x.shape, dtype=bool)
    mask[10:, 1] = True
    model = LinearGaussian.from_values(x, mask)
    alone = LinearGaussian.from_values(x[:10])
    parents = [1, 0, 1]
    assert score(model, 1, parents) == pytest.approx(score(alone, 1, parents), abs=1e-10)
    full = LinearGaussian.from_values(x)
    assert score(model, 0, [0, 1, 1]) == score(full, 0, [0, 1, 1])


def test_a_node_set_from_outside_in_every_row_has_no_evidence():
    x = values(n=20, m=3)
    mask = np.zeros(x.shape, dtype=bool)
    mask[:, 2] = True
    scores = LinearGaussian.from_values(x, mask).score_tables()[2]
    np.testing.assert_allclose(scores[np.isfinite(scores)], 0.0, atol=1e-12)


@pytest.mark.parametrize(("mean_weight", "scale_weight"), [(0.0, 8.0), (1.0, 5.0)])
def test_improper_priors_are_refused(mean_weight, scale_weight):
    with pytest.raises(ValueError, match="scale_weight > m"):
        LinearGaussian.from_values(values(), mean_weight=mean_weight, scale_weight=scale_weight)
