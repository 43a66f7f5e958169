"""The scikit-learn estimator keeps scikit-learn's conventions and agrees with `svidag.fit`."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import svidag
from svidag.problem import Problem

QUICK = svidag.methods.OrderMCMC(exact=False, chains=2, burn_in=20, orders=200, thin=2)
MODEL = svidag.SVIDAG(method=QUICK, mechanism="linear")


@parametrize_with_checks([MODEL])
@pytest.mark.filterwarnings("ignore")  # checks feed odd tables and expect the notes about them
def test_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    return svidag.datasets.synthetic(m=4, edges=4, n=120, seed=4).data


def test_it_gives_what_fit_gives(table):
    model = clone(MODEL).fit(table)
    posterior = svidag.fit(table, method=QUICK, mechanism="linear", progress=False)
    assert model.edge_probabilities_.equals(posterior.edge_probabilities())
    assert list(model.feature_names_in_) == list(table.columns)


def test_a_target_column_is_no_variable(table):
    marked = table.assign(target=[""] * 60 + [table.columns[0]] * 60)
    model = clone(MODEL).fit(marked, interventions="target")
    assert model.n_features_in_ == 4
    assert model.posterior_.names == tuple(table.columns)
    for data in (marked, table.to_numpy()):
        with pytest.raises(ValueError, match="interventions is 'tarqet', which is not a column"):
            clone(MODEL).fit(data, interventions="tarqet")


class Foreign:
    """A table of another library, known only by its ``to_pandas``."""

    def __init__(self, frame):
        self.to_pandas = lambda: frame


def test_tables_of_other_libraries_keep_their_names(table):
    marked = table.assign(batch=["a", "b"] * 60)
    model = clone(MODEL).fit(Foreign(marked), environments="batch")
    assert model.posterior_.names == tuple(table.columns)


def test_environments_and_groups_are_no_variables(table):
    """By column or by label: what `svidag.fit` says, bags included, which resample groups."""
    batch, family = np.arange(120) % 2, [f"f{k // 3}" for k in range(120)]
    asked = {"method": QUICK, "mechanism": "linear", "bags": 2, "workers": 1}
    marked = table.assign(batch=np.where(batch, "b", "a"), family=family)
    model = svidag.SVIDAG(**asked).fit(marked, environments="batch", groups="family")
    assert list(model.feature_names_in_) == list(table.columns)
    names = {"environments": "batch", "groups": "family"}
    posterior = svidag.fit(marked, **asked, **names, progress=False)
    assert model.edge_probabilities_.equals(posterior.edge_probabilities())
    assert model.posterior_.changes().equals(posterior.changes())
    labelled = svidag.SVIDAG(**asked).fit(table, environments=batch, groups=family)
    assert labelled.edge_probabilities_.equals(posterior.edge_probabilities())
    without = svidag.fit(table, **asked, progress=False)
    assert not model.edge_probabilities_.equals(without.edge_probabilities())


@pytest.mark.parametrize("argument", ["environments", "groups"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("bacth", "{} is 'bacth', which is not a column; the nearest column is 'batch'"),
        (np.zeros((2, 2)), "{} must .* label each row"),
        (["a", "b"] * 50, "{} has 100 labels; expected 120, one for each row"),
    ],
)
def test_environments_and_groups_that_are_none_are_refused(table, argument, given, message):
    marked = table.assign(batch=["a", "b"] * 60)
    data = marked if isinstance(given, str) else table
    with pytest.raises(ValueError, match=message.format(argument)):
        clone(MODEL).fit(data, **{argument: given})
    if isinstance(given, str):
        with pytest.raises(ValueError, match="arrays have no names"):
            clone(MODEL).fit(table.to_numpy(), **{argument: given})


def test_the_score_is_the_mean_log_density_of_rows(table):
    model = clone(MODEL).fit(table[:80])
    rows = model.score_samples(table[80:])
    assert rows.shape == (40,)
    assert model.score(table[80:]) == pytest.approx(rows.mean())
    shifted = table[80:] + 10.0
    assert model.score(shifted) < model.score(table[80:])


def test_a_fitted_estimator_survives_pickling(table):
    model = clone(MODEL).fit(table)
    again = pickle.loads(pickle.dumps(model))
    assert again.edge_probabilities_.equals(model.edge_probabilities_)
    assert np.array_equal(again.posterior_.sample(5), model.posterior_.sample(5))


def test_a_prior_that_is_no_prior_is_refused(table):
    with pytest.raises(ValueError, match=r"prior must be a svidag.Prior; got dict"):
        Problem.build(table, prior={"p": 0.1}, standardise=True)
