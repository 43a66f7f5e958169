"""Rows in which a variable was set from outside decide directions."""

import numpy as np
import pandas as pd

import svidag

rng = np.random.default_rng(0)
cause = rng.standard_normal(300)
cause[200:] = 2.0 * rng.standard_normal(100)  # set by the experimenter
effect = 0.8 * cause + rng.standard_normal(300)
table = pd.DataFrame({"dose": cause, "response": effect})
table["target"] = [""] * 200 + ["dose"] * 100

for rows, name in ((table[:200], "200 rows observed"), (table, "and 100 with the dose set")):
    posterior = svidag.fit(rows, interventions="target", mechanism="linear", progress=False)
    edges = posterior.edge_probabilities()
    print(
        f"{name}: dose → response {edges.loc['dose', 'response']:.3f}, "
        f"reverse {edges.loc['response', 'dose']:.3f}"
    )
