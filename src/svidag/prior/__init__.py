"""Beliefs p_ij, ν_ij → Beta(α_ij, β_ij) → Beta–Bernoulli over B, Logistic–Beta over γ.

For an ordered pair the belief p and its concentration ν give (paper, Section 3.2.1, with s = ½)

    π ~ Beta(α, β),    α = νp + 2s,    β = ν(1 − p) + 2(1 − s),    B ~ Bernoulli(π),

so that p(B = 1) = α/(α + β), and the edge logit γ = logit π has the Logistic–Beta density

    log p(γ) = α log σ(γ) + β log σ(−γ) − log 𝓑(α, β).

Hard knowledge K conditions the prior: p(B, r | K) ∝ p(B) p(r) 1[A satisfies K], A = B ⊙ M(r).
Forbidden pairs, tiers and a search space delete pairs and leave orders uniform; a required i → j
fixes B_ij = 1 and keeps only orders with r_i > r_j.
"""

from svidag.prior.beliefs import BeliefWarning, Prior
from svidag.prior.edges import EdgePrior, logistic_beta_log_density

__all__ = ["BeliefWarning", "EdgePrior", "Prior", "logistic_beta_log_density"]
