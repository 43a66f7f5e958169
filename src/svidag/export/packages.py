"""Objects of pgmpy and ArviZ; both are imported when they are asked for."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from svidag import __version__
from svidag.data.columns import show
from svidag.export.graphs import to_networkx
from svidag.posterior import Posterior


def to_pgmpy(posterior: Posterior, graph: pd.DataFrame | None = None) -> Any:
    """A pgmpy ``DAG`` on all the variables; see `Posterior.to_pgmpy`."""
    found = to_networkx(posterior, graph=graph)
    if not nx.is_directed_acyclic_graph(found):
        cycle = " → ".join(show(cause) for cause, _ in nx.find_cycle(found))
        raise ValueError(f"pgmpy takes acyclic graphs; this one has the cycle {cycle} → …")
    base = _needed("pgmpy.base", "pgmpy")
    result = base.DAG()
    result.add_nodes_from(found.nodes)
    result.add_edges_from(found.edges)
    return result


def to_arviz(posterior: Posterior, n: int, seed: int) -> Any:
    """Draws, prior and data as ArviZ keeps them; see `Posterior.to_arviz`."""
    arviz, xarray = _needed("arviz", "arviz"), _needed("xarray", "arviz")
    groups = {
        name: xarray.Dataset(variables, coords, {"creator": f"svidag {__version__}"})
        for name, variables, coords in _groups(posterior, n, seed)
    }
    if hasattr(arviz, "InferenceData"):  # ArviZ before 1.0
        return arviz.InferenceData(**groups)
    return xarray.DataTree.from_dict(groups)


def _groups(posterior: Posterior, n: int, seed: int) -> list[tuple[str, dict, dict]]:
    """Name, variables and coordinates of each group."""
    names = np.array(posterior.names, dtype=object)
    pairs, ends = ("cause", "effect"), {"cause": names, "effect": names}
    draws = posterior.sample(n, seed)
    edges = posterior.graphs.edge_probabilities()
    # Draws are independent and particles are no chain: there is nothing to compute an R-hat from.
    groups: list[tuple[str, dict, dict]] = [
        (
            "posterior",
            {"graph": (("draw", *pairs), draws), "edge_probability": (pairs, edges)},
            {"draw": np.arange(n), **ends},
        )
    ]
    problem = posterior.problem
    if problem is not None:
        prior = problem.prior.edge_probabilities().to_numpy()
        groups.append(("prior", {"edge_probability": (pairs, prior)}, ends))
        values = problem.values
        if problem.missing is not None:
            values = np.where(problem.missing.mask, np.nan, values)
        cells = ("row", "variable")
        table = {"value": (cells, values), "intervened": (cells, problem.data.intervened)}
        where = {"row": np.arange(len(values)), "variable": names}
        groups.append(("observed_data", table, where))
    return groups


def _needed(module: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs {module.split('.')[0]}: install svidag with its extra {extra!r}, "
            f"svidag[{extra}]"
        ) from error
