"""The posterior over causal graphs: what every fit returns and all that follows it reads."""

from svidag.posterior.distributions import DrawnGraphs, GraphDistribution
from svidag.posterior.posterior import Posterior

__all__ = ["DrawnGraphs", "GraphDistribution", "Posterior"]
