"""The settings of DDS (VI-DP-DAG)."""

from __future__ import annotations

from dataclasses import dataclass

from svidag.run.settings import Settings, setting


@dataclass(frozen=True)
class DDSSettings(Settings):
    """What the authors' implementation fixes, with a divergence that is one."""

    epochs: int = setting(100, "Passes over the training rows at most.", least=1)
    batch: int = setting(64, "Rows of a minibatch.", least=1)
    validation: float = setting(0.2, "Share of rows held out to stop by.", above=0, most=0.9)
    check_every: int = setting(2, "Epochs between two looks at the held-out rows.", least=1)
    patience: int = setting(20, "Looks without a gain after which training ends.", least=1)
    keep: str = setting(
        "best", "Keep the best state on held-out rows, or the last.", choices=("best", "last")
    )
    hidden: tuple[int, ...] = setting((16, 16, 16), "Hidden layers of the networks.", least=1)
    order_temperature: float = setting(1.0, "Temperature τ of SoftSort.", above=0)
    edge_temperature: float = setting(1.0, "Temperature of the relaxed edges.", above=0)
    divergence: str = setting(
        "bernoulli",
        "Divergence from the prior, or upstream's, which takes logits for log probabilities.",
        choices=("bernoulli", "logits"),
    )
    divergence_weight: float = setting(0.1, "Weight ρ of the divergence.", least=0)
    edge_probability: float = setting(
        0.01, "Prior probability of an edge, where no beliefs are stated.", above=0, most=0.999
    )
    network_rate: float = setting(1e-3, "Adam's learning rate of the networks.", above=0)
    graph_rate: float = setting(1e-2, "Adam's learning rate of orders and edges.", above=0)
