"""Laws of the integrated wide network: evidence, sharing, names, interventions, spread."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_t

from svidag.mechanisms.wide import PRECISIONS, WideNetwork, even_thresholds, named_directions

NAMES = ("a", "b", "c", "d")


def sample(n=40, m=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, m))
    x[:, 2] = np.maximum(x[:, 0] - 0.5 * x[:, 1], 0) + 0.3 * x[:, 2]
    return x


def chosen(*parents, m=4):
    row = np.zeros(m, dtype=bool)
    row[list(parents)] = True
    return row


def score(model, node, *parents):
    return model.family_scores(np.array([node]), chosen(*parents, m=model.m)[None])[0]


def features(x, parents, names, units, seed):
    """φ(x_S) written out from the definition."""
    directions = named_directions(names, units, seed)[list(parents)]
    directions = directions / np.sqrt((directions**2).sum(axis=0))
    inner = x[:, list(parents)] @ directions - even_thresholds(units, seed)
    hidden = np.sqrt(2 / units) * np.maximum(inner, 0)
    return np.hstack([0.5 * x[:, list(parents)], np.full((len(x), 1), 0.5), hidden])


def log_t_density(y, shape, df):
    """The multivariate t density; SciPy's takes the eigenvalues of the shape, which is slow."""
    n, (_, log_determinant) = len(y), np.linalg.slogdet(shape)
    distance = y @ np.linalg.solve(shape, y)
    constant = gammaln((df + n) / 2) - gammaln(df / 2) - n / 2 * np.log(df * np.pi)
    return constant - log_determinant / 2 - (df + n) / 2 * np.log1p(distance / df)


def test_the_density_is_that_of_scipy():
    x = sample(30)
    shape = np.eye(30) + x @ x.T
    expected = multivariate_t.logpdf(x[:, 2], shape=shape, df=2)
    assert log_t_density(x[:, 2], shape, 2) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("rows", "units"),
    [
        pytest.param(40, 12, id="features"),
        pytest.param(40, 60, id="rows"),
        pytest.param(1100, 12, id="blocks of rows", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("parents", [(0,), (0, 1), (0, 1, 3)])
def test_evidence_is_a_mixture_of_multivariate_t_densities(parents, rows, units):
    x = sample(rows)
    model = WideNetwork.from_values(x, NAMES, units=units, seed=5)
    phi = features(x, parents, NAMES, units, 5)
    given = [
        log_t_density(x[:, 2], np.eye(len(x)) + phi @ phi.T / precision, df=2)
        for precision in PRECISIONS
    ]
    expected = logsumexp(given) - np.log(len(PRECISIONS))
    assert score(model, 2, *parents) == pytest.approx(expected, abs=1e-8)


def test_without_parents_there_is_only_a_constant():
    x = sample()
    given = [
        multivariate_t.logpdf(x[:, 1], shape=np.eye(40) + 0.25 / precision, df=2)
        for precision in PRECISIONS
    ]
    expected = logsumexp(given) - np.log(len(PRECISIONS))
    assert score(WideNetwork.from_values(x, NAMES), 1) == pytest.approx(expected, abs=1e-9)


def test_many_pairs_at_once_equal_one_at_a_time_and_blocks_of_rows_do_not_matter():
    model = WideNetwork.from_values(sample(1100), NAMES, units=8)
    nodes = np.array([2, 3, 2, 1, 3, 2])
    sets = [(0,), (0,), (0, 1), (), (0, 1, 2), (0,)]
    together = model.family_scores(nodes, np.stack([chosen(*s) for s in sets]))
    alone = [score(model, node, *s) for node, s in zip(nodes.tolist(), sets, strict=True)]
    assert together == pytest.approx(alone, abs=1e-9)
    assert model.family_scores(nodes[:0], np.zeros((0, 4), dtype=bool)).shape == (0,)


def test_column_order_does_not_matter():
    x = sample(60)
    turned = [3, 1, 0, 2]
    one = WideNetwork.from_values(x, NAMES, units=20, seed=2)
    two = WideNetwork.from_values(x[:, turned], [NAMES[i] for i in turned], units=20, seed=2)
    assert score(one, 2, 0, 1) == pytest.approx(score(two, 3, 2, 1), abs=1e-9)
    other_seed = WideNetwork.from_values(x, NAMES, units=20, seed=3)
    assert abs(score(one, 2, 0, 1) - score(other_seed, 2, 0, 1)) > 1e-6


def test_rows_in_which_a_node_was_set_are_left_out_of_its_evidence_only():
    x = sample(60)
    intervened = np.zeros(x.shape, dtype=bool)
    intervened[:20, 2] = True
    masked = WideNetwork.from_values(x, NAMES, intervened, units=10)
    kept = WideNetwork.from_values(x[20:], NAMES, units=10)
    full = WideNetwork.from_values(x, NAMES, units=10)
    pairs = np.array([2, 3]), np.stack([chosen(0, 1), chosen(0, 1)])
    got = masked.family_scores(*pairs)
    assert got[0] == pytest.approx(kept.family_scores(*pairs)[0], abs=1e-9)
    assert got[1] == pytest.approx(full.family_scores(*pairs)[1], abs=1e-9)


def test_directions_are_orthogonal_and_thresholds_even():
    rows = named_directions([f"x{j}" for j in range(9)], 16, 0)
    assert rows @ rows.T == pytest.approx(np.eye(9), abs=1e-12)
    assert named_directions([f"x{j}" for j in range(9)], 4, 0).shape == (9, 4)
    assert np.sort(even_thresholds(4, 0)).tolist() == [-1.5, -0.5, 0.5, 1.5]


def test_the_gain_of_an_irrelevant_parent_hardly_depends_on_the_features():
    x = np.random.default_rng(4).standard_normal((1000, 4))
    x[:, 2] += np.maximum(x[:, 0] - 0.5 * x[:, 1], 0)
    gains = []
    for seed in range(8):
        model = WideNetwork.from_values(x, NAMES, units=200, seed=seed)
        nodes, sets = np.array([2, 2]), np.stack([chosen(0, 1), chosen(0, 1, 3)])
        without, with_it = model.family_scores(nodes, sets)
        gains.append(with_it - without)
    assert np.std(gains) < 1.0
    assert np.mean(gains) < -3.0


def test_a_node_among_its_own_parents_is_an_error():
    model = WideNetwork.from_values(sample(), NAMES)
    with pytest.raises(ValueError, match="node 2 is among its own parents"):
        score(model, 2, 0, 2)
    with pytest.raises(ValueError, match="units must not be negative; got -1"):
        WideNetwork.from_values(sample(), NAMES, units=-1)


def test_a_single_unit_and_few_rows_are_scored_by_what_is_compiled_already():
    x = sample(5)
    model = WideNetwork.from_values(x, NAMES, units=1)
    nodes, sets = np.array([2, 3, 2]), np.stack([chosen(0, 1, 3), chosen(0, 1, 2), chosen(0, 1)])
    assert np.isfinite(model.family_scores(nodes, sets)).all()  # warnings are errors
