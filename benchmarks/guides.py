"""Is a flow better than independent edges? `python benchmarks/guides.py fresh`.

Given an order, what independent edges cannot express of the posterior p(S | U) of a node's parents
is its *total correlation*, KL(p ‖ Π_i p_i), here summed over nodes. Both guides are trained on the
same tables with the default settings of `svi-dag`, and compared at the orders that their own
chains visit: KL(p ‖ q) of the guide, the error of the arrows without correction, and the time. p is
the posterior among the parent sets that training found.

Random linear graphs with 10 and 25 variables; and `copies`, where each of three causes is measured
twice with a little noise, so that either measurement can stand for the cause.
"""

import sys
import time
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import svidag
from svidag.methods import SVIDAG
from svidag.orders.permutation import possible_edges
from svidag.variational.node_guide import of_node
from svidag.variational.node_inference import NodeInference

ORDERS, DRAWS = 40, 256


def tables(label):
    """Names and tables."""
    for m, edges, n in ((10, 25, 100), (25, 40, 200)):
        seed = f"benchmark|guides|{label}|{m}"
        example = svidag.datasets.synthetic(m=m, edges=edges, n=n, seed=seed)
        yield f"{m} variables, {n} rows", example.data
    seed = f"benchmark|guides|{label}|copies"
    causes = svidag.datasets.synthetic(m=3, edges=2, n=100, seed=seed).data.to_numpy()
    noise = np.random.default_rng(list(seed.encode())).standard_normal((2, *causes.shape))
    twice = np.concatenate([causes + 0.1 * one for one in noise], axis=1)
    effect = causes.sum(axis=1, keepdims=True) + noise[0, :, :1]
    columns = [f"x{i}" for i in range(6)] + ["effect"]
    yield "copies, 100 rows", pd.DataFrame(np.concatenate([twice, effect], axis=1), columns=columns)


def divergences(found, prior):
    """Total correlation of p and KL(p ‖ q), summed over nodes and averaged over orders."""
    orders = found.sampling.orders.reshape(-1, len(prior.required))
    orders = orders[np.linspace(0, len(orders) - 1, ORDERS).astype(int)]
    possible = possible_edges(orders, prior.allowed)
    kept, m = found.kept, len(prior.required)
    correlation = divergence = 0.0
    for j in range(m):
        of_j = slice(kept.offsets[j], kept.offsets[j + 1])
        sets, weights = kept.sets[of_j], kept.weights[of_j]
        columns = possible[:, :, j]
        logits = np.asarray(_logits(found.guides, jnp.asarray(j), jnp.asarray(columns)), float)
        for column, of_guide in zip(columns, logits, strict=True):
            inside = ~(sets & ~column).any(axis=1)
            log_p = weights[inside] - np.logaddexp.reduce(weights[inside])
            p, members = np.exp(log_p), sets[inside]
            share = np.clip(p @ members, 1e-12, 1 - 1e-12)
            apart = np.where(members, np.log(share), np.log1p(-share))[:, column].sum(axis=1)
            correlation += p @ (log_p - apart)
            divergence += p @ (log_p - log_mixture(of_guide[:, column], members[:, column]))
    return correlation / ORDERS, divergence / ORDERS


@eqx.filter_jit
def _logits(guides, j, columns):
    guide = of_node(guides, j)
    z = jax.random.normal(jax.random.key(0), (DRAWS, columns.shape[1]))
    return jax.vmap(lambda column: guide.logits(z, column.astype(jnp.float32)))(columns)


def log_mixture(logits, members):
    """log q of parent sets, averaged over the logits of many draws."""
    terms = logits @ members.T - np.logaddexp(0.0, logits).sum(axis=1)[:, None]
    return np.logaddexp.reduce(terms, axis=0) - np.log(len(logits))


def main(label="fresh"):
    """One table, a row for each problem and guide."""
    warnings.simplefilter("ignore", svidag.FitWarning)
    print(
        "| table | guide | total correlation | KL(p ‖ q) | mean error | worst error "
        "| CPU seconds |\n|---|---|---|---|---|---|---|"
    )
    caught = {}
    inference = NodeInference.run

    def run(self, *arguments, **options):
        caught["found"], caught["prior"] = inference(self, *arguments, **options), self.prior
        return caught["found"]

    NodeInference.run = run
    for name, table in tables(label):
        exact = None
        if table.shape[1] <= 12:
            found = svidag.exact.posterior(table, mechanism="linear")
            exact = found.edge_probabilities().to_numpy()
        for guide in ("mean-field", "flow"):
            started = time.process_time()
            method = SVIDAG(guide=guide, correction="none")
            fitted = svidag.fit(table, method=method, mechanism="linear", progress=False)
            seconds = time.process_time() - started
            correlation, divergence = divergences(caught["found"], caught["prior"])
            error = " | "
            if exact is not None:
                off = np.abs(fitted.edge_probabilities().to_numpy() - exact)
                error = f" {off[~np.eye(len(off), dtype=bool)].mean():.4f} | {off.max():.3f} "
            print(
                f"| {name} | {guide} | {correlation:.3f} | {divergence:.3f} |{error}"
                f"| {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
