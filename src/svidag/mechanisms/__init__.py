"""How an effect follows from its causes: p(D | A, θ), with θ integrated out or guided."""
