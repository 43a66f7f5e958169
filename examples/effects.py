"""What an intervention would do, over all graphs and parameters."""

import svidag

example = svidag.datasets.synthetic(m=5, edges=6, n=500, kind="linear", seed=2)
posterior = svidag.fit(example.data, mechanism="linear", progress=False)

cause, effect = example.names[0], example.names[3]
print(posterior.effect(cause, effect))

drawn = posterior.do({cause: 2.0}, n=2000)
print(f"\nMean of {effect} when {cause} is set to 2: {drawn[effect].mean():.3f}")
