"""Code written for the CPU's sake in place of a library's; each module says what it gains.

`python benchmarks/kernels.py` measures what a step of Algorithm 1 gains on one Sachs fold (m = 11)
and at m = 25 (`coupling`, `descent`, `elementary`, `noise`), `python benchmarks/compiled.py` what
scores gain over NumPy (the others); both in CPU time, side by side in one process. Loops that no
library has, such as moves over orders and searches, are compiled where they stand.
"""
