"""Beliefs and certain facts, and what they change."""

import svidag

example = svidag.datasets.synthetic(m=5, edges=5, n=100, kind="linear", seed=8)
without = svidag.fit(example.data, mechanism="linear", progress=False)

first, last = example.names[0], example.names[-1]
prior = svidag.Prior(
    beliefs={(first, last): 0.8},
    tiers=[list(example.names[:-1]), [last]],  # nothing is caused by the last variable
)
informed = svidag.fit(example.data, prior=prior, mechanism="linear", progress=False)

assert informed.sample(1000)[:, -1, :].sum() == 0  # hard knowledge holds in every draw
print(f"Prior probability of {first} → {last}:")
print(prior.bind(example.names).edge_probabilities().loc[first, last].round(3))
print("\nWhat changed most:")
print(svidag.compare(without, informed).largest(5))
