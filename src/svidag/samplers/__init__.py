"""Samplers: Markov chains over orders, Stein particles."""
