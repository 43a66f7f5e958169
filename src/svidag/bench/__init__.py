"""Studies: a data file becomes cells, cells become rows, rows become tables and plots.

A study is one TOML file and no code (:mod:`svidag.bench.study`). It expands into cells; a cell is
a pure function of its content (:mod:`svidag.bench.cell`). The runner computes the cells that have
no row yet (:mod:`svidag.bench.runner`), here or on many machines (:mod:`svidag.bench.cluster`), and
the tables read nothing but rows.
"""
