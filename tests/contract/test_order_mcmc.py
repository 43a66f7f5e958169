"""Methods with integrated mechanisms, from a problem to a posterior, against exact answers."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import svidag
from svidag.data import Dataset
from svidag.exact import posterior as exact_posterior
from svidag.graph import are_dags
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.mixed import MixedMechanism
from svidag.mechanisms.mixed_screen import ScreenedMixed
from svidag.mechanisms.order_averaged import OrderAveraged
from svidag.mechanisms.wide import WideNetwork
from svidag.methods import mechanism_choice, order_mcmc
from svidag.methods.order_mcmc import IN_A_MIXTURE, OrderMCMC, can_be_summed
from svidag.prior import Prior
from svidag.run.status import Status

sys.path.insert(0, str(Path(__file__).parent))

import choices

pytestmark = pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # hardly any steps

QUICK = {"exact": False, "chains": 4, "burn_in": 50, "orders": 200, "check_every": 50, "thin": 5}
GUIDE = {"iterations": 40, "covering": 20, "copies": 1, "rounds": 200, "estimate_draws": 4}
FLOW = {"blocks": 1, "width": 4}
OPTIONS = {
    "orders": {"method": "order-mcmc", **QUICK},
    "mean-field": {"method": "svi-dag", "guide": "mean-field", **GUIDE},
    "flow": {"method": "svi-dag", **GUIDE, **FLOW},
}
KNOWLEDGE = Prior(p=0.3, required=[("b", "a")], forbidden=[("c", "d")], beliefs={("e", "a"): 0.7})


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 5))
    x[:, 1] += 0.6 * x[:, 0]
    x[:, 3] += 0.5 * x[:, 1] - 0.5 * x[:, 2]
    return pd.DataFrame(x, columns=list("abcde"))


def fit(frame, *, mechanism="linear", route="orders", **settings):
    return choices.fit(frame, mechanism=mechanism, **{**OPTIONS[route], **settings})


def intervened(frame):
    mask = np.zeros(frame.shape, dtype=bool)
    mask[:40, 1] = True
    return mask


def test_nonlinear_fit_agrees_with_the_exact_posterior():
    frame = table()
    frame["d"] += np.abs(frame["a"])
    found = fit(frame, mechanism="nonlinear", units=16, seed=2)
    exact = exact_posterior(frame, mechanism="nonlinear", units=16, seed=2)
    assert found.edge_probabilities().to_numpy() == pytest.approx(
        exact.edge_probabilities().to_numpy(), abs=0.04
    )


@pytest.fixture(scope="module", params=OPTIONS)
def informed(request):
    """A fit with hard knowledge against the data, beliefs and interventions."""
    frame = table()
    return fit(frame, route=request.param, prior=KNOWLEDGE, interventions=intervened(frame), seed=1)


def test_edges_agree_with_the_exact_posterior_under_knowledge_and_interventions(informed):
    frame = table()
    exact = exact_posterior(frame, prior=KNOWLEDGE, interventions=intervened(frame))
    error = np.abs(informed.edge_probabilities() - exact.edge_probabilities()).to_numpy()
    assert error.max() < 0.05
    assert error.mean() < 0.01


def test_hard_knowledge_holds_in_every_draw_even_where_the_data_deny_it(informed):
    draws = informed.sample(1000, seed=1)
    assert are_dags(draws).all()
    assert draws[:, 1, 0].all()  # b → a, though a drives b
    assert not draws[:, 2, 3].any()  # c → d, which is in the data, is forbidden
    probability = informed.edge_probabilities()
    assert probability.loc["b", "a"] == pytest.approx(1.0)
    assert probability.loc["c", "d"] == 0.0


def test_draws_match_the_edges_and_repeat_with_the_seed(informed):
    draws = informed.sample(2000, seed=1)
    assert (draws == informed.sample(2000, seed=1)).all()
    assert (draws != informed.sample(2000, seed=2)).any()
    assert draws.mean(axis=0) == pytest.approx(informed.edge_probabilities().to_numpy(), abs=0.08)


def test_a_fit_says_how_it_went(informed):
    facts = informed.diagnostics
    assert facts.status is Status.CONVERGED
    assert facts.details.half_disagreement < facts.settings["agreement"]
    assert facts.details.effective_orders >= facts.settings["effective_orders"]
    assert 1 <= facts.details.effective_distinct_orders <= facts.details.distinct_orders
    assert facts.details.log_evidence_trace.shape[0] == 4
    assert informed.names == tuple("abcde")


@pytest.mark.parametrize("route", ["orders", "flow"])
def test_nonlinear_fits_do_not_depend_on_the_order_of_columns(route):
    frame = table(60)
    small = {"mechanism": "nonlinear", "units": 8, "route": route}
    one = fit(frame, **small).edge_probabilities()
    turned = fit(frame[list("dbeac")], **small).edge_probabilities()
    assert turned.loc[list("abcde"), list("abcde")].to_numpy() == pytest.approx(
        one.to_numpy(), abs=0.05
    )


def test_linear_fits_do_not_depend_on_the_order_of_columns():
    frame = svidag.datasets.synthetic(m=7, edges=9, n=80, seed="columns").data
    turned = frame[["x4", "x2", "x7", "x1", "x6", "x3", "x5"]]
    one, two = (fit(x).edge_probabilities() for x in (frame, turned))
    names = list(frame.columns)
    assert two.loc[names, names].to_numpy() == pytest.approx(one.to_numpy(), abs=0.08)


def test_structure_weights_give_the_exact_posterior_over_structures():
    found = fit(table(), graph_weights="structure", seed=1, orders=1000, agreement=0)
    exact = exact_posterior(table(), graph_weights="structure").edge_probabilities().to_numpy()
    orders = exact_posterior(table()).edge_probabilities().to_numpy()
    assert np.abs(orders - exact).max() > 0.06
    assert found.edge_probabilities().to_numpy() == pytest.approx(exact, abs=0.03)
    assert 1000 < found.diagnostics.structure_weights.effective_draws < 10_000
    assert found.diagnostics.structure_weights.count_error == 0


def test_sketched_and_full_nonlinear_fits_agree():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((320, 4))
    x[:, 2] += np.maximum(x[:, 0] - x[:, 1], 0)
    frame = pd.DataFrame(x, columns=list("abcd"))
    sketched = fit(frame, mechanism="nonlinear", units=40, sketch_units=8)
    full = fit(frame, mechanism="nonlinear", units=40, sketch_units=40)
    assert sketched.diagnostics.details.sketched_share < 0.01
    assert sketched.edge_probabilities().to_numpy() == pytest.approx(
        full.edge_probabilities().to_numpy(), abs=0.04
    )


def many_causes():
    """Seventeen causes of a nineteenth variable that must be kept, more than are tabulated."""
    x = np.random.default_rng(0).standard_normal((60, 19))
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(19)])
    return frame, Prior(required=[(f"x{i}", "x18") for i in range(17)])


@pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # hardly any orders
def test_many_required_parents_are_in_every_draw():
    frame, prior = many_causes()
    found = fit(frame, prior=prior, orders=20, check_every=20)
    assert max(found.diagnostics.details.candidates) >= 17
    draws = found.sample(50)
    assert are_dags(draws).all()
    assert draws[:, :17, 18].all()


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear"])
def test_small_problems_are_summed_exactly(mechanism):
    networks = {"units": 6, "seed": 3} if mechanism == "nonlinear" else {}
    chosen = {"mechanism": mechanism, "prior": KNOWLEDGE, **networks}
    found = choices.fit(table(60), **chosen)
    exact = exact_posterior(table(60), **chosen)
    assert found.edge_probabilities().equals(exact.edge_probabilities())
    assert (found.sample(50) == exact.sample(50)).all()
    assert found.log_evidence == exact.log_evidence
    assert found.diagnostics.status is Status.EXACT


def test_what_is_small_depends_on_the_mechanism_and_the_rows():
    few, many = (np.random.default_rng(0).standard_normal((n, 12)) for n in (40, 7000))
    names = [f"x{i}" for i in range(12)]
    networks = [WideNetwork.from_values(x, names, units=2) for x in (few, many)]
    assert [can_be_summed(network) for network in networks] == [True, False]
    for m, small in ((18, True), (19, False)):
        x = np.random.default_rng(0).standard_normal((40, m))
        assert can_be_summed(LinearGaussian.from_values(x)) is small


@pytest.mark.parametrize(
    ("m", "n", "small"), [(9, 6366, True), (10, 500, True), (10, 20_000, False), (11, 60, False)]
)
def test_tables_of_codes_are_small_by_columns_and_rows(m, n, small):
    rng = np.random.default_rng(0)
    codes = pd.DataFrame(rng.integers(1, 6, (n, m - 1)), columns=[f"q{j}" for j in range(m - 1)])
    data = Dataset.from_any(codes.assign(x=rng.normal(size=n)))
    assert can_be_summed(ScreenedMixed(OrderAveraged(MixedMechanism(data)))) is small


@pytest.mark.filterwarnings("ignore::svidag.FitWarning")  # and something is missing
def test_chains_that_stay_apart_are_warned_of():
    """Orders that do not move."""
    with pytest.warns(svidag.FitWarning, match="differ by"):
        found = fit(table(), moves="none", orders=4, agreement=0)
    assert found.diagnostics.status is Status.BUDGET
    assert found.diagnostics.details.half_disagreement > 0.1


def test_a_fit_that_ran_out_of_time_is_warned_of():
    with pytest.warns(svidag.FitWarning, match="time was over before a fresh search"):
        fit(table(), minutes=0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"levels": 0}, "levels must be at least 1; got 0"),
        ({"flattest": 2.0}, r"flattest must be at most 1; got 2\.0"),
        ({"agreement": -1}, "agreement must be at least 0; got -1"),
        ({"moves": "jump"}, r"moves must be one of \['relocation', 'swap', 'none'\]; got 'jump'"),
        ({"particles": 3}, "unknown setting 'particles'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        svidag.methods.OrderMCMC().with_values(settings)


@pytest.mark.parametrize(("kind", "expected"), [("linear", "linear"), ("curved", "flexible")])
def test_auto_chooses_by_evidence_and_says_by_how_much(kind, expected):
    example = svidag.datasets.synthetic(m=4, edges=4, n=1000, kind=kind, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(example.data, mechanism="auto", bags=None, units=40)
    assert found.mechanism == expected
    assert found.diagnostics.mechanism_margin > 0


def test_one_fit_of_many_is_lighter_except_where_it_was_set():
    lighter = OrderMCMC(rounds=7).for_mixture()
    assert (lighter.orders, lighter.rounds) == (IN_A_MIXTURE["orders"], 7)
    assert lighter.orders < OrderMCMC().orders


def test_the_choice_of_the_mechanism_is_kept(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    file, data = tmp_path / "fit.svidag", table(60)
    asked = {"checkpoint": file, "bags": None, "progress": False}
    whole = svidag.fit(data, bags=None, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(order_mcmc, "sum_exactly", stop)
        with pytest.raises(KeyboardInterrupt):
            svidag.fit(data, **asked)
    monkeypatch.setattr(mechanism_choice, "choose_of_all", stop)  # not again
    found = svidag.fit(data, **asked)
    assert found.edge_probabilities().equals(whole.edge_probabilities())
    assert found.diagnostics.mechanism_margin == whole.diagnostics.mechanism_margin
