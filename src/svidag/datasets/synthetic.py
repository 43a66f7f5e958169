"""Random graphs with random structural equations: the generators of the paper's experiments."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import networkx as nx
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, UInt8

from svidag.datasets.departures import Departures, assign, hidden_weights
from svidag.datasets.example import Example, labelled
from svidag.datasets.noise import NOISES, unit_noise
from svidag.datasets.seeds import content_seed, stream
from svidag.datasets.structural import (
    CurvedMechanism,
    GrowingScale,
    LinearMechanism,
    ReluNetwork,
    StructuralModel,
    draw_order,
)
from svidag.graph import random_dag

HIDDEN = 10  # units of each nonlinear equation, as in the paper
FREQUENCIES = (0.5, 1.5)  # of curved equations, per unit of the parent
PILOT_ROWS = 10_000  # that fix the constants of a growing scale
KINDS = ("linear", "nonlinear", "curved")
GRAPHS = MappingProxyType({"er": "Erdős–Rényi", "sf": "scale-free"})


def synthetic(
    m: int,
    edges: int,
    n: int,
    kind: str = "linear",
    graph: str = "er",
    seed: int | str = 0,
    *,
    weights: tuple[float, float] = (0.3, 0.7),
    noise: str = "gaussian",
    noise_sd: float | Sequence[float] = 1.0,
    freedom: float = 3.0,
    interventions: float | Mapping[str, int] | None = None,
    hidden: int = 0,
    batches: int = 0,
    batch_shift: float = 1.0,
    autocorrelation: float = 0.0,
    groups: int = 0,
    group_share: float = 0.5,
    measurement_error: float = 0.0,
    distortion: str | None = None,
) -> Example:
    """Draw a random DAG, random equations on it, and n rows from them.

    - ``kind="linear"``: x_j = Σ_i w_ij x_i + σ_j ε_j.
    - ``kind="nonlinear"``: x_j = Σ_h w2_h ReLU(Σ_i W1_ih x_i + b1_h)_h + σ_j ε_j with 10 hidden
      units; a variable without parents is σ_j ε_j.
    - ``kind="curved"``: x_j = Σ_i √2 w_ij sin(ω_ij x_i + φ_ij) + σ_j ε_j, smooth and additive,
      with ω ~ U(0.5, 1.5) and φ ~ U(0, 2π).

    Every w, W1, b1, w2 is ±U(0.3, 0.7) with a fair sign. Columns are named x1, …, xm and are not
    standardised.

    The options from `hidden` on break what models assume: that there are no common causes outside
    the table, that rows are independent and alike, and that values are measured as they are.

    Parameters
    ----------
    m, edges, n : int
        Number of variables, of arrows (exactly), and of rows.
    kind : str
        ``"linear"``, ``"nonlinear"`` or ``"curved"``.
    graph : str
        ``"er"``: every undirected graph with that many edges is equally likely, and arrows follow
        a uniform random order; ``"sf"``: scale-free, `svidag.graph.random_dag` with this seed.
    seed : int or str
        A string stands for its `content_seed`.
    weights : pair of float
        Range of the absolute value of every coefficient.
    noise : str
        Distribution of ε_j, always with mean 0 and variance 1, so that only the shape differs:

        - ``"gaussian"``, ``"laplace"``, ``"uniform"`` on [−√3, √3];
        - ``"t"``: √((ν − 2)/ν) T with T of Student's distribution, heavy-tailed;
        - ``"lognormal"``: (exp(Z) − √e) / √(e(e − 1)) with Z ~ N(0, 1), skewed;
        - ``"mixture"``: 0.8 N(−0.45, 0.19) + 0.2 N(1.8, 0.19), two groups of values;
        - ``"growing"``: Gaussian, times s(z) = c (0.2 + log(1 + exp z)) with z the first parent in
          column order, standardised, and c such that the mean of s² is 1 (over 10 000 rows drawn
          apart); a variable without parents has s = 1.
    noise_sd : float or one per variable
        σ_j.
    freedom : float
        ν > 2, the degrees of freedom of ``"t"`` noise.
    interventions : float or mapping from name to number of rows, optional
        Rows in which one variable is cut off from its parents and drawn from N(0, 1) instead;
        they are the last rows. A fraction f gives round(f n) such rows, each with a target chosen
        at random; a mapping gives each target its number of rows, one block after another.
    hidden : int
        Number of hidden common causes u_k, distributed as the noise: the equations of two
        variables, drawn at random for each k, get the term h_kj u_k with h_kj as the weights.
    batches : int
        Number of batches, of equal size, to which rows are assigned at random; 0 for none. The
        equation of j gets the term c σ_j b_kj in batch k, with b_kj ~ N(0, 1).
    batch_shift : float
        c.
    autocorrelation : float
        ρ in (−1, 1): noise follows e_t = ρ e_{t−1} + √(1 − ρ²) ε_t from row to row.
    groups : int
        Number of groups, of equal size, to which rows are assigned at random; 0 for none. The
        noise of a row in group g is √s u_gj + √(1 − s) ε_j with u_gj ~ N(0, 1).
    group_share : float
        s in [0, 1), the correlation of the noise of two rows in a group.
    measurement_error : float
        q in [0, 1): measured is x_j + √(q/(1 − q)) sd(x_j) e with e ~ N(0, 1), so that q is the
        share of the error in the variance of what is measured.
    distortion : str, optional
        Measured is an increasing function g(z) of the standardised value (with its error):
        ``"exponential"``: exp(z); ``"cubic"``: z + z³; ``"logarithmic"``: arsinh(3z);
        ``"mixed"``: one of these for each variable, drawn at random.

    Returns
    -------
    Example
        With `model`, the equations: ``example.model.simulate(n, seed=…, do={"x1": 2.0})`` is the
        ground truth of an intervention, and ``example.model.weights`` holds the w_ij if linear.
        The model has hidden causes, but neither batches, dependent rows nor measurement. The
        series `batches` and `groups` say where each row belongs.

    Notes
    -----
    Default settings make the draws of the code published with the paper, in its order: graph from
    ``networkx.gnm_random_graph(m, edges, seed)`` and ``default_rng(seed).permutation(m)``; then,
    from ``default_rng(seed + 1)``, linear: all |w_ij| (effect by effect, causes in column order
    within each), all signs, then the noise of each variable in topological order; nonlinear: W1,
    b1, w2 and the noise of each variable in turn. So a seed gives the graph it gives there and,
    before standardising, the same data up to rounding: ours are float64, those float32 (a
    restatement of that procedure differed by at most 2e-6 on eight seeds). Its seeds are such as
    ``"ER_p25_s40|n=1000|rep=0"``, with the prefix ``case3|`` for nonlinear equations, and
    ``case5|ER_p50_s80|…`` and ``case6|ER_p50_s80|…`` for linear and nonlinear at m = 50.
    Interventions are drawn from ``default_rng(seed + 2)`` and leave all other draws as they were.
    Hidden causes, batches, groups, measurement error and distortion have streams of their own
    and do so too.

    Examples
    --------
    >>> example = synthetic(m=5, edges=4, n=100, kind="nonlinear", seed="demo", interventions=0.2)
    >>> example.data.shape, int(example.truth.to_numpy().sum())
    ((100, 5), 4)
    >>> int(example.interventions.to_numpy().sum())
    20
    >>> synthetic(m=5, edges=4, n=100, noise="t", batches=4).batches.value_counts().tolist()
    [25, 25, 25, 25]
    """
    _check_request(m, edges, n, kind, graph, weights)
    _check_noise(noise, freedom)
    departures = Departures(
        hidden=hidden,
        batches=batches,
        batch_shift=batch_shift,
        autocorrelation=autocorrelation,
        groups=groups,
        group_share=group_share,
        measurement_error=measurement_error,
        distortion=distortion,
    )
    departures.check_size(m, n)
    number = _seed_number(seed)
    A = _er_dag(m, edges, number) if graph == "er" else random_dag(m, edges, "sf", seed=number)
    names = tuple(f"x{i + 1}" for i in range(m))
    sd = _noise_sds(noise_sd, m)
    model, unit = _draw_model(A, names, n, kind, weights, noise, freedom, sd, number + 1)
    if hidden:
        model = replace(model, hidden_weights=hidden_weights(hidden, m, weights, number))
    if noise == "growing":
        model = _with_growing_scales(model, number)
    batch, group = (
        assign(n, count, name, number) if count else None
        for name, count in (("batches", batches), ("groups", groups))
    )
    eps = departures.disturb(unit, batch, group, sd, number)
    if hidden:
        eps = eps + model.draw_hidden(n, stream(number, "hidden values")) @ model.hidden_weights
    fixed = _draw_interventions(interventions, names, n, number + 2)
    x = departures.measure(model.propagate(eps, fixed), number)
    return Example(
        data=pd.DataFrame(x, columns=list(names)),
        truth=labelled(A, names),
        interventions=None if interventions is None else _mask(~np.isnan(fixed), names),
        description=(
            f"{n} rows of {kind} equations with {noise} noise on a random {GRAPHS[graph]} DAG "
            f"with {m} variables and {edges} edges, seed {seed!r}{departures.description}"
        ),
        model=model,
        batches=None if batch is None else pd.Series(batch, name="batch"),
        groups=None if group is None else pd.Series(group, name="group"),
    )


def two_node(kind: str = "linear", n: int = 1000, seed: int | str | None = None) -> Example:
    """x1 → x2, the paper's experiment on the effect of the prior.

    - ``kind="linear"``: x1 ~ N(0, 1), x2 = x1 + N(0, 1); the data cannot tell the direction.
    - ``kind="nonlinear"``: x2 = exp(−x1²) sin(5 x1³) + sin(3π x1) + N(0, 0.1²); they can.

    Parameters
    ----------
    kind : str
        ``"linear"`` or ``"nonlinear"``.
    n : int
        Number of rows.
    seed : int or str, optional
        By default the paper's (0 for linear, 123 for nonlinear), which with n = 1000 gives its
        data (rounded to float32 there). The paper fits ``example.data[:-100]`` and holds out
        ``example.data[-100:]``.

    Examples
    --------
    >>> example = two_node("nonlinear")
    >>> example.data[:-100].shape, int(example.truth.loc["x1", "x2"])
    ((900, 2), 1)
    """
    _check_member("kind", kind, ("linear", "nonlinear"))
    _check_at_least("n", n, 1)
    linear = kind == "linear"
    model = StructuralModel(
        names=("x1", "x2"),
        adjacency=np.array([[0, 1], [0, 0]], dtype=np.uint8),
        mechanisms=(_NOTHING, LinearMechanism(np.ones(1)) if linear else _wave),
        noise_sd=np.array([1.0, 1.0 if linear else 0.1]),
    )
    if seed is None:
        seed = 0 if linear else 123
    return Example(
        data=model.simulate(n, seed=_seed_number(seed)),
        truth=labelled(model.adjacency, model.names),
        interventions=None,
        description=f"{n} rows of x1 → x2 with a {kind} equation, seed {seed!r}",
        model=model,
    )


_NOTHING = LinearMechanism(np.zeros(0))


def _wave(x: Float[np.ndarray, "N 1"]) -> Float[np.ndarray, "N"]:
    x1 = x[:, 0]
    return np.exp(-(x1**2)) * np.sin(5 * x1**3) + np.sin(3 * np.pi * x1)


def _er_dag(m: int, edges: int, seed: int) -> UInt8[np.ndarray, "m m"]:
    """Uniform graph with `edges` edges, oriented along a random order."""
    rank = np.argsort(np.random.default_rng(seed).permutation(m))
    A = np.zeros((m, m), dtype=np.uint8)
    for u, v in nx.gnm_random_graph(m, edges, seed=seed).edges:
        A[(u, v) if rank[u] < rank[v] else (v, u)] = 1
    return A


def _draw_model(
    A: UInt8[np.ndarray, "m m"],
    names: tuple[str, ...],
    n: int,
    kind: str,
    bounds: tuple[float, float],
    noise: str,
    freedom: float,
    sd: Float[np.ndarray, "m"],
    seed: int,
) -> tuple[StructuralModel, Float[np.ndarray, "N m"]]:
    """Draw equations and unit noise from one stream, in the order `synthetic` documents."""
    rng = np.random.default_rng(seed)
    W = np.zeros(A.shape)
    if kind == "linear":
        # The transpose makes the mask's row-major order go effect by effect.
        W.T[A.T != 0] = _signed(rng, bounds, (int(A.sum()),))
    mechanisms: list[LinearMechanism | ReluNetwork | CurvedMechanism] = [_NOTHING] * len(A)
    unit = np.empty((n, len(A)))
    for j in draw_order(A):
        parents = np.flatnonzero(A[:, j])
        if kind == "linear":
            mechanisms[j] = LinearMechanism(W[parents, j])
        elif kind == "curved":
            mechanisms[j] = _draw_curve(rng, bounds, len(parents))
        elif len(parents):
            shapes = ((len(parents), HIDDEN), (HIDDEN,), (HIDDEN,))
            mechanisms[j] = ReluNetwork(*(_signed(rng, bounds, shape) for shape in shapes))
        unit[:, j] = unit_noise(rng, noise, n, freedom)
    return StructuralModel(names, A, tuple(mechanisms), sd, noise, freedom), unit


def _draw_curve(
    rng: np.random.Generator, bounds: tuple[float, float], parents: int
) -> CurvedMechanism:
    return CurvedMechanism(
        _signed(rng, bounds, (parents,)),
        rng.uniform(*FREQUENCIES, size=parents),
        rng.uniform(0.0, 2 * np.pi, size=parents),
    )


def _with_growing_scales(model: StructuralModel, seed: int) -> StructuralModel:
    """The model in which noise grows with the first parent, its constants from rows drawn apart."""
    noise = model.draw_noise(PILOT_ROWS, stream(seed, "pilot"))
    unset = np.full_like(noise, np.nan)
    scales: list[GrowingScale | None] = [None] * len(model.names)
    for j in draw_order(model.adjacency):
        parents = np.flatnonzero(model.adjacency[:, j])
        if len(parents):
            # All variables before j have their scales already.
            x = replace(model, scales=tuple(scales)).propagate(noise, unset)
            scales[j] = GrowingScale.fitted(x[:, parents[0]])
    return replace(model, scales=tuple(scales))


def _signed(
    rng: np.random.Generator, bounds: tuple[float, float], shape: tuple[int, ...]
) -> Float[np.ndarray, "..."]:
    """±U(low, high): all magnitudes first, then all signs."""
    magnitude = rng.uniform(*bounds, size=shape)
    return magnitude * rng.choice(np.array([-1.0, 1.0]), size=shape)


def _draw_interventions(
    request: float | Mapping[str, int] | None, names: tuple[str, ...], n: int, seed: int
) -> Float[np.ndarray, "N m"]:
    """Values set by intervention in the last rows, NaN wherever nothing was set."""
    rng = np.random.default_rng(seed)
    if isinstance(request, Mapping):
        targets = _blocks(request, names)
    elif request is None:
        targets = np.zeros(0, dtype=int)
    elif not 0 < request <= 1:
        raise ValueError(f"interventions must be a fraction in (0, 1], got {request}")
    else:
        targets = rng.integers(len(names), size=round(request * n))
    if len(targets) > n:
        raise ValueError(f"interventions ask for {len(targets)} rows, but n is {n}")
    fixed = np.full((n, len(names)), np.nan)
    rows = np.arange(n - len(targets), n)
    fixed[rows, targets] = rng.standard_normal(len(targets))
    return fixed


def _blocks(request: Mapping[str, int], names: tuple[str, ...]) -> np.ndarray:
    """Index of the target of each row, block after block."""
    for name, count in request.items():
        if name not in names:
            raise ValueError(f"interventions name {name!r}, which is none of {', '.join(names)}")
        _check_at_least(f"interventions[{name!r}]", count, 0)
    return np.repeat([names.index(name) for name in request], list(request.values()))


def _mask(values: Bool[np.ndarray, "N m"], names: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(values, columns=list(names))


def _seed_number(seed: int | str) -> int:
    number = content_seed(seed) if isinstance(seed, str) else seed
    _check_at_least("seed", number, 0)
    return number


def _noise_sds(noise_sd: float | Sequence[float], m: int) -> Float[np.ndarray, "m"]:
    sd = np.asarray(noise_sd, dtype=float)
    if sd.shape not in ((), (m,)) or not (sd > 0).all():
        raise ValueError(
            f"noise_sd must be a positive number or {m} of them, one per variable, got {noise_sd}"
        )
    return np.broadcast_to(sd, m).copy()


def _check_request(
    m: int, edges: int, n: int, kind: str, graph: str, weights: tuple[float, float]
) -> None:
    _check_at_least("m", m, 1)
    _check_at_least("n", n, 1)
    _check_member("kind", kind, KINDS)
    _check_member("graph", graph, tuple(GRAPHS))
    most = m * (m - 1) // 2
    if not 0 <= edges <= most:
        raise ValueError(
            f"edges must be between 0 and m(m − 1)/2 = {most} for m = {m}, got {edges}"
        )
    if not 0 <= weights[0] <= weights[1]:
        raise ValueError(f"weights must be a pair 0 ≤ low ≤ high of magnitudes, got {weights}")


def _check_noise(noise: str, freedom: float) -> None:
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {noise!r}")
    if not 2 < freedom < np.inf:
        raise ValueError(
            f"freedom must be a number above 2, where t noise has a variance, got {freedom}"
        )


def _check_member(argument: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        expected = " or ".join(repr(a) for a in allowed)
        raise ValueError(f"{argument} must be {expected}, got {value!r}")


def _check_at_least(argument: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{argument} must be at least {least}, got {value}")
