"""Code written for the CPU's sake; each module says what it gains (`python benchmarks/kernels.py`).

The gains are of a step of Algorithm 1 on one Sachs fold (m = 11) and at m = 25, in CPU time,
against the library's way in the same process.
"""
