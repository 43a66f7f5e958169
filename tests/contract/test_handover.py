"""From the posterior to an effect in DoWhy, a query in pgmpy and a tree in ArviZ: the real ones.

In a process of its own, since these packages warn about much on import.
"""

import subprocess
import sys

import numpy as np
import pandas as pd

import svidag

HANDOVER = """
import sys
import numpy as np, pandas as pd
import svidag

folder = sys.argv[1]
posterior, table = svidag.load(f"{folder}/run.svidag"), pd.read_csv(f"{folder}/table.csv")

from dowhy import CausalModel

model = CausalModel(table, treatment="dose", outcome="out come", graph=posterior.to_networkx())
estimand = model.identify_effect(proceed_when_unidentifiable=True)
assert estimand.get_backdoor_variables() == ["age"], estimand
value = model.estimate_effect(estimand, method_name="backdoor.linear_regression").value
ours = posterior.effect("dose", "out come", n=100).mean
assert abs(value - 1.5) < 0.15 and abs(value - ours) < 0.05, (value, ours)

from pgmpy.base import DAG
from pgmpy.inference import VariableElimination
from pgmpy.models import DiscreteBayesianNetwork

dag = posterior.to_pgmpy()
assert isinstance(dag, DAG)
assert list(dag.nodes) == list(posterior.names)
assert not dag.is_dconnected("noise", "dose")
assert dag.is_dconnected("dose", "out come", observed=["age"])
high = (table > 0).astype(int).astype(str)
network = DiscreteBayesianNetwork(dag.edges())
network.add_nodes_from(dag.nodes)
network.fit(high)
query = VariableElimination(network).query(["out come"], evidence={"dose": "1", "age": "0"})
share = (high["out come"] == "1")[(high["dose"] == "1") & (high["age"] == "0")].mean()
assert abs(query.get_value(**{"out come": "1"}) - share) < 1e-6, (query, share)

import arviz

kept = posterior.to_arviz(n=20, seed=1)
assert isinstance(kept, arviz.InferenceData)
assert kept.posterior["graph"].dims == ("draw", "cause", "effect")
assert "chain" not in kept.posterior.dims
assert (kept.posterior["graph"].to_numpy() == posterior.sample(20, seed=1)).all()
kept.to_netcdf(f"{folder}/run.nc")
again = arviz.from_netcdf(f"{folder}/run.nc")
assert list(again.posterior["cause"].to_numpy()) == list(posterior.names)
assert np.allclose(again.observed_data["value"], table)
"""


def test_effects_queries_and_trees_in_the_packages_themselves(tmp_path):
    rng = np.random.default_rng(0)
    age, noise = rng.standard_normal((2, 800))
    dose = 0.8 * age + rng.standard_normal(800)
    outcome = 1.5 * dose - age + rng.standard_normal(800)
    table = pd.DataFrame({"age": age, "dose": dose, "noise": noise, "out come": outcome})
    prior = svidag.Prior(tiers=[["age"], ["dose"], ["out come"]])
    svidag.exact.posterior(table, prior=prior).save(tmp_path / "run.svidag")
    table.to_csv(tmp_path / "table.csv", index=False)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HANDOVER, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
