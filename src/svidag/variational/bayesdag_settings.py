"""The settings of BayesDAG."""

from __future__ import annotations

from dataclasses import dataclass

from svidag.run.settings import Settings, setting


@dataclass(frozen=True)
class BayesDAGSettings(Settings):
    """What the authors' implementation fixes, with a sparsity that needs no labels."""

    chains: int = setting(10, "Chains that run side by side, C.", least=1)
    iterations: int = setting(2400, "Minibatches, at least; whole passes are made.", least=1)
    epochs: int | None = setting(None, "Passes over the rows, in place of `iterations`.", least=1)
    batch: int = setting(128, "Rows of a minibatch.", least=1)
    sparsity: str | float = setting(
        "held-out",
        "What an arrow costs, λ: a number, or chosen by held-out rows (0 if beliefs are stated).",
        least=0,
        choices=("held-out",),
    )
    sparsities: tuple[float, ...] = setting(
        (3.0, 10.0, 30.0, 100.0, 300.0), "Values of λ to choose from.", least=0
    )
    held_out: float = setting(0.2, "Share of rows held out to choose λ.", above=0, most=0.5)
    choice_iterations: int | None = setting(
        None, "Minibatches for each λ; by default 800 for linear and 400 for mlp.", least=1
    )
    edge_input: str = setting(
        "potentials",
        "What the network over edges sees of an order: its potentials, or its permutation.",
        choices=("potentials", "permutation"),
    )
    edge_hidden: tuple[int, ...] = setting((48, 48), "Layers of the network over edges.", least=1)
    edge_start: float = setting(0.0, "Added to the logits of all edges.")
    hidden: tuple[int, ...] | None = setting(
        None, "Hidden layers of g and f (mlp); by default one of max(4m, 64) units.", least=1
    )
    order_temperature: float = setting(0.02, "Temperature of the relaxed order.", above=0)
    edge_temperature: float = setting(0.2, "Temperature of the relaxed edges.", above=0)
    potential_spread: float = setting(0.1, "Prior standard deviation of potentials.", above=0)
    potential_noise: float = setting(0.1, "Noise s of the sampler of potentials.", least=0)
    parameter_noise: float = setting(0.01, "Noise s of the sampler of parameters.", least=0)
    drift: str = setting(
        "chain",
        "Gradient of a chain: of its own posterior, or of the mean over chains as upstream.",
        choices=("chain", "mean"),
    )
    sampler_rate: float = setting(3e-4, "Squared step size of the sampler, η².", above=0, most=0.1)
    learning_rate: float = setting(0.005, "Adam's rate of the network over edges.", above=0)
    draws: int = setting(2000, "Graphs drawn when training is over.", least=1)
    draw_batch: int = setting(500, "Rows of a minibatch while graphs are drawn.", least=1)
    thinning: int | None = setting(
        None,
        "Steps of the chains between two draws; by default 5 for linear and 1 for mlp.",
        least=1,
    )
    chunk: int = setting(5, "Epochs between two reports.", least=1)

    def passes(self, rows: int, iterations: int) -> int:
        """How many passes over so many rows make so many minibatches."""
        return -(-iterations // -(-rows // min(self.batch, rows)))

    def layers(self, m: int) -> tuple[int, ...]:
        """The hidden layers of g and f."""
        return (max(4 * m, 64),) if self.hidden is None else tuple(self.hidden)
