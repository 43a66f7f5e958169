"""A first fit: a table in, arrow probabilities out."""

import svidag

example = svidag.datasets.synthetic(m=6, edges=7, n=400, kind="linear", seed=3)
posterior = svidag.fit(example.data, mechanism="linear", progress=False)

print("P(cause → effect)")
print(posterior.edge_probabilities().round(2))

print("\nThe three most probable graphs")
for ranked in posterior.top_graphs(3):
    arrows = ranked.graph.stack()
    print(f"{ranked.probability:.3f}", [f"{a} → {b}" for a, b in arrows[arrows == 1].index])

print("\nThe graph that agrees best with all of them")
print(posterior.consensus().graph)
