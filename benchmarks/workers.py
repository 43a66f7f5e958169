"""One fit on one and on two Dask workers: `python benchmarks/workers.py [CELL …]`.

Workers are processes of this machine with one thread each, so it needs two free cores. The
efficiency is T₁ / (2 T₂). Each fit is made in full by a fresh cluster whose workers have compiled
before; the same bits are required. Where other programs run too, times say little; the efficiency
by CPU is at most (C + ΣW) / (2 (C + max W)) with C the seconds of CPU of this process and W those
of the workers. The lines below a cell say what was sent: tasks by name, their mean seconds, and
megabytes of what is shared, of tasks and of results.
"""

import argparse
import hashlib
import pickle
import resource
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass, field

from distributed import Client, LocalCluster

import svidag
from svidag.run.dask_pool import DaskPool

CELLS = {
    "linear-p25": ("linear", 25, 40, 1000),
    "linear-p100": ("linear", 100, 160, 1000),
    "linear-p200": ("linear", 200, 320, 1000),
    "flexible-p25": ("flexible", 25, 40, 1000),
    "flexible-p50": ("flexible", 50, 80, 1000),
}


@dataclass
class Traffic:
    """What went to workers and came back, by the name of the task."""

    count: dict = field(default_factory=lambda: defaultdict(int))
    out: dict = field(default_factory=lambda: defaultdict(int))
    back: dict = field(default_factory=lambda: defaultdict(int))
    seconds: dict = field(default_factory=lambda: defaultdict(float))
    shared: list = field(default_factory=list)


def watched(traffic):
    """The pool, with everything that passes it weighed."""

    class Watched(DaskPool):
        def submit(self, task, shared, own, *heard):
            future, name = super().submit(task, shared, own, *heard), task.__name__
            traffic.count[name] += 1
            traffic.out[name] += len(pickle.dumps(own))
            future.named = name, time.perf_counter()
            return future

        def _scatter(self, shared):
            traffic.shared.append(len(pickle.dumps(shared.value)))
            return super()._scatter(shared)

        def result(self, future):
            found, (name, began) = super().result(future), future.named
            traffic.back[name] += len(pickle.dumps(found))
            traffic.seconds[name] += time.perf_counter() - began
            return found

    return Watched


def measure(cell, workers):
    """Seconds, a digest of the result, and the traffic."""
    from svidag.run import dask_pool

    mechanism, m, edges, n = CELLS[cell]
    kind = "linear" if mechanism == "linear" else "nonlinear"
    data = svidag.datasets.synthetic(m=m, edges=edges, n=n, kind=kind, seed=7).data
    small = svidag.datasets.synthetic(m=20, edges=20, n=60, kind=kind, seed=1).data
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        quick = svidag.methods.OrderMCMC(orders=20, rounds=1, fresh_searches=1)
        svidag.fit(small, method=quick, mechanism=mechanism, workers=client, progress=False)
        traffic = Traffic()  # of the fit that is measured
        dask_pool.DaskPool = watched(traffic)
        before = processors(client)
        started = time.perf_counter()
        posterior = svidag.fit(data, mechanism=mechanism, workers=client, progress=False)
        seconds = time.perf_counter() - started
        memory = max(client.run(peak).values())
        used = [after - then for after, then in zip(processors(client), before, strict=True)]
    digest = hashlib.sha256(posterior.graphs.edge_probabilities().tobytes()).hexdigest()[:12]
    return seconds, digest, traffic, used, memory


def processors(client):
    """Seconds of CPU of this process, which holds the scheduler too, and of each worker."""
    return [time.process_time(), *client.run(time.process_time).values()]


def peak():
    """The most memory of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def show(traffic, used, memory):
    print(f"    a worker takes {memory:.0f} MB at most")
    print("    CPU: " + ", ".join(f"{seconds:.1f} s" for seconds in used) + " (here, each worker)")
    here, *each = used
    print(f"    efficiency by CPU at most {(here + sum(each)) / (2 * (here + max(each))):.2f}")
    total = sum(traffic.shared) / 1e6
    print(f"    shared: {len(traffic.shared)} values, {total:.1f} MB to each worker")
    for name, count in traffic.count.items():
        print(
            f"    {name}: {count} tasks, {traffic.seconds[name] / count:.2f} s each from sending "
            f"to result, {traffic.out[name] / 1e6:.1f} MB out, "
            f"{traffic.back[name] / 1e6:.1f} MB back"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", default=["linear-p200", "flexible-p50"])
    warnings.simplefilter("ignore")
    for cell in parser.parse_args().cells:
        one, digest, *_ = measure(cell, 1)
        two, again, traffic, used, memory = measure(cell, 2)
        assert digest == again, "the results differ"
        print(f"{cell}: {one:.1f} s with one worker, {two:.1f} s with two, "
              f"efficiency {one / two / 2:.2f}", flush=True)  # fmt: skip
        show(traffic, used, memory)


if __name__ == "__main__":
    main()
