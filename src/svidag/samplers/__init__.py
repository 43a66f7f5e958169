"""Samplers: Markov chains over orders and missing cells, Stein particles, stochastic gradients."""
