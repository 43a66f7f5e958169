"""The posterior over causal graphs: what every fit returns and all that follows it reads."""

from svidag.posterior.posterior import (
    ClassProbabilities,
    DrawnGraphs,
    GraphDistribution,
    Posterior,
    RankedGraph,
)

__all__ = ["ClassProbabilities", "DrawnGraphs", "GraphDistribution", "Posterior", "RankedGraph"]
