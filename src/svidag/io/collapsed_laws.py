"""Parts of the laws over parameters that were integrated out of the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from svidag.io.laws import pack_scaling, require_shape, unpack_scaling
from svidag.mechanisms.linear import LinearGaussian
from svidag.mechanisms.linear_law import LinearLaw
from svidag.mechanisms.wide import WideNetwork
from svidag.mechanisms.wide_law import WideLaw
from svidag.problem import Problem


def pack_linear(law: LinearLaw, problem: Problem | None) -> dict[str, Any]:
    """Sufficient statistics and prior weights."""
    model = {field.name: getattr(law.model, field.name) for field in fields(law.model)}
    return {"model": model, "scaling": pack_scaling(law.scaling)}


def unpack_linear(parts: Mapping[str, Any], problem: Problem | None) -> LinearLaw:
    """The coefficients behind BGe."""
    model = LinearGaussian(**parts["model"])
    m = len(require_shape(model.group, (-1,), "group"))
    groups = len(require_shape(model.rows, (-1,), "rows"))
    require_shape(model.scatter, (groups, m, m), "scatter")
    require_shape(model.mean, (groups, m), "mean")
    return LinearLaw(model, unpack_scaling(parts["scaling"]))


def pack_wide(law: WideLaw, problem: Problem | None) -> dict[str, Any]:
    """The hidden layer, and the table unless the problem holds it already."""
    model = law.model
    known = problem is not None and np.array_equal(problem.data.values.T, model.columns)
    return {
        "columns": None if known else model.columns,
        "kept": model.kept,
        "group": model.group,
        "directions": model.directions,
        "thresholds": model.thresholds,
        "scaling": pack_scaling(law.scaling),
    }


def unpack_wide(parts: Mapping[str, Any], problem: Problem | None) -> WideLaw:
    """The output weights of the wide network."""
    columns = parts["columns"]
    if columns is None:
        if problem is None:
            raise ValueError("a wide network lacks its data")
        columns = np.ascontiguousarray(problem.data.values.T)
    m, n = columns.shape
    directions = require_shape(parts["directions"], (m, -1), "directions")
    model = WideNetwork(
        columns,
        require_shape(parts["kept"], (-1, n), "kept"),
        require_shape(parts["group"], (m,), "group"),
        directions,
        require_shape(parts["thresholds"], (directions.shape[1],), "thresholds"),
    )
    return WideLaw(model, unpack_scaling(parts["scaling"]))
