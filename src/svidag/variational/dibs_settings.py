"""The settings of DiBS."""

from __future__ import annotations

from dataclasses import dataclass

from svidag.run.settings import Settings, setting


@dataclass(frozen=True)
class DiBSSettings(Settings):
    """What the reference implementation of DiBS fixes by default."""

    particles: int = setting(20, "Particles, K.", least=1)
    iterations: int = setting(2000, "Steps of Stein variational gradient descent, T.", least=1)
    latent: int | None = setting(
        None,
        "Dimensions k of latent vectors; by default as many as variables.",
        least=1,
    )
    edge_slope: float | None = setting(
        None, "Slope a of α_t = a t; by default 1 for linear and 0.05 for mlp.", above=0
    )
    cycle_slope: float = setting(1.0, "Slope b of β_t = b t, the weight of cycles.", above=0)
    graph_draws: int | None = setting(
        None,
        "Graphs for each gradient, M; by default 128 for linear and 8 for mlp.",
        least=1,
    )
    cycle_draws: int = setting(32, "Soft graphs for the gradient of the cycles.", least=1)
    ratio: str | None = setting(
        None,
        "Weigh whole graphs, or the parents of each node; by default the latter for mlp.",
        choices=("graph", "node"),
    )
    edges_per_node: float = setting(
        2.0, "Edges per variable that the prior expects, where no beliefs are stated.", above=0
    )
    bandwidth: float = setting(5.0, "Bandwidth h of the kernel on latent vectors.", above=0)
    network_bandwidth: float = setting(500.0, "Bandwidth of the kernel on networks.", above=0)
    hidden: tuple[int, ...] = setting((10,), "Hidden layers of the networks (mlp).", least=1)
    noise_variance: float = setting(0.1, "Variance of the noise (mlp).", above=0)
    learning_rate: float = setting(0.005, "RMSProp's learning rate.", above=0)
    weights: str = setting(
        "equal",
        "Whether particles count alike, or in proportion to the evidence of their graphs.",
        choices=("equal", "evidence"),
    )
    chunk: int = setting(50, "Steps between two reports of progress.", least=1)
