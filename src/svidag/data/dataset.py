"""The table that every method reads: names, values, and the intervention mask."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64

from svidag.data import audit
from svidag.data.coding import Coding
from svidag.data.columns import closest, column_names, show
from svidag.data.files import read_table
from svidag.data.interventions import mask_from_table, mask_from_targets
from svidag.data.kinds import Column, Kind, Level, asked_kinds, coded, read_column
from svidag.data.scaling import Scaling, read_only, scaling_of
from svidag.data.transforms import resolve, transform_columns


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of N rows and m named variables, with the entries set by interventions marked.

    Its arrays are read-only. Two datasets hold the same data iff their checksums are equal.

    Parameters
    ----------
    names
        Column names, distinct and not blank.
    values
        The measurements, in original units after any transform; codes 0 … K−1 of a discrete column.
    intervened
        True where the value was set by an intervention rather than by the variable's causes.
    transforms
        For each column the name of the transform it went through, or None.
    kinds
        What the values of each column mean; by default all are continuous.
    levels
        For each discrete column the labels of its codes; empty for others.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"PKA": [1, 2, 9], "Akt": [0.5, 0.1, 0.2], "target": ["", "", "PKA"]})
    >>> data = Dataset.from_any(frame, interventions="target")
    >>> data.names, data.n_rows, data.m
    (('PKA', 'Akt'), 3, 2)
    >>> data.intervened.tolist()
    [[False, False], [False, False], [True, False]]
    """

    names: tuple[str, ...]
    values: Float64[np.ndarray, "N m"] = field(repr=False)
    intervened: Bool[np.ndarray, "N m"] = field(repr=False)
    transforms: tuple[str | None, ...] = ()
    kinds: tuple[Kind, ...] = field(default=(), repr=False)
    levels: tuple[tuple[Level, ...], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", column_names(self.names, "data"))
        object.__setattr__(self, "values", read_only(self.values, np.float64))
        object.__setattr__(self, "intervened", read_only(self.intervened, np.bool_))
        object.__setattr__(self, "transforms", self.transforms or (None,) * self.m)
        kinds = self.kinds or (Kind.CONTINUOUS,) * self.m
        object.__setattr__(self, "kinds", tuple(map(Kind, kinds)))
        object.__setattr__(self, "levels", self.levels or ((),) * self.m)
        if self.values.ndim != 2 or self.values.shape[1] != self.m:
            raise ValueError(f"data has the shape {self.values.shape} but {self.m} names")
        if self.intervened.shape != self.values.shape:
            raise ValueError(
                f"intervened has the shape {self.intervened.shape}; expected {self.values.shape}"
            )
        if len(self.transforms) != self.m:
            raise ValueError(f"data has {self.m} columns but {len(self.transforms)} transforms")
        if len(self.kinds) != self.m or len(self.levels) != self.m:
            raise ValueError(
                f"data has {self.m} columns but {len(self.kinds)} kinds and the levels of "
                f"{len(self.levels)}"
            )

    def __reduce__(self):
        return Dataset, tuple(self.parts().values())

    def parts(self) -> dict[str, Any]:
        """Every part by its name, as it is saved."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> "Dataset":
        """The data of these parts; files from before there were kinds have no kinds and levels."""
        kinds = tuple(map(Kind, parts.get("kinds", ())))
        return cls(**{**parts, "kinds": kinds})

    @classmethod
    def from_any(
        cls,
        data: object,
        *,
        names: Sequence[object] | None = None,
        interventions: object = None,
        transforms: str | Mapping[str, str | None] | None = None,
        kinds: str | Mapping[str, Any] | None = None,
    ) -> "Dataset":
        """Return the data as a `Dataset`.

        Parameters
        ----------
        data
            A DataFrame (or a table with a ``to_pandas`` method), a 2-d array, the path of a CSV,
            TSV or Parquet file, or a `Dataset`, which is returned as it is unless
            interventions, transforms or kinds are given. Columns are numbers, truth values,
            categories or text with few different values. A row index is not a variable.
        names
            Column names for an array; by default ``x1`` to ``xm``.
        interventions
            A boolean array [N, m]; a boolean frame, matched by column name, whose absent columns
            were never intervened on; or the name of a column of the data that names each row's
            targets, separated by ``;`` or ``,`` and empty for none. That column is not a variable.
        transforms
            ``"log"`` or ``"rank-gaussian"`` for every column of numbers that are no codes, or a
            mapping from column to one. A transformed column is continuous.
        kinds
            A mapping from column to ``"continuous"``, ``"binary"``, ``"categorical"``,
            ``"ordinal"`` or ``"count"``, or to the levels of an ordinal column in their order; or
            one kind for every column. By default a column's dtype and values say what it is.

        Raises
        ------
        ValueError
            If the data cannot be read as numbers with distinct names, or the interventions or
            transforms do not fit them. Missing and infinite values are found by `audit`.

        Examples
        --------
        >>> import numpy as np
        >>> Dataset.from_any(np.eye(3), transforms={"x2": "rank-gaussian"})
        Dataset(names=('x1', 'x2', 'x3'), transforms=(None, 'rank-gaussian', None))
        """
        if isinstance(data, Dataset):
            _reject_names(names)
            return data._revised(interventions, transforms, kinds)
        target = interventions if isinstance(interventions, str) else None
        frame, source = _table(data, names, target)
        frame.columns = pd.Index(column_names(frame.columns, source), dtype=object)
        frame, mask = _split_interventions(frame, interventions, source)
        variables = tuple(frame.columns)
        asked = asked_kinds(kinds, variables)
        if isinstance(transforms, Mapping):
            asked |= {name: "continuous" for name in variables if transforms.get(name)}
        columns = [
            read_column(frame.iloc[:, j], name, source, asked[name])
            for j, name in enumerate(variables)
        ]
        return cls._of(variables, columns, mask)._transformed(transforms)

    @classmethod
    def _of(
        cls,
        names: tuple[str, ...],
        columns: Sequence[Column],
        intervened: Bool[np.ndarray, "N m"],
        transforms: tuple[str | None, ...] = (),
    ) -> "Dataset":
        values = np.empty(intervened.shape)
        for j, column in enumerate(columns):
            values[:, j] = column.values
        kinds = tuple(column.kind for column in columns)
        levels = tuple(column.levels for column in columns)
        return cls(names, values, intervened, transforms, kinds, levels)

    def _revised(
        self,
        interventions: object,
        transforms: str | Mapping[str, str | None] | None,
        kinds: str | Mapping[str, Any] | None,
    ) -> "Dataset":
        revised = self
        if interventions is not None:
            frame, mask = _split_interventions(self.to_frame(), interventions, "data")
            kept = [self.names.index(name) for name in frame.columns]
            revised = replace(self.columns(kept), intervened=mask)
        return revised._of_kinds(kinds)._transformed(transforms)

    def _of_kinds(self, kinds: str | Mapping[str, Any] | None) -> "Dataset":
        """The same table with other kinds where they are asked for."""
        asked = asked_kinds(kinds, self.names)
        if not any(asked.values()):
            return self
        frame = self.to_frame()
        columns = [
            Column(self.values[:, j], self.kinds[j], self.levels[j])
            if asked[name] is None
            else read_column(frame.iloc[:, j], name, "data", asked[name])
            for j, name in enumerate(self.names)
        ]
        return self._of(self.names, columns, self.intervened, self.transforms)

    def columns(self, kept: Sequence[int]) -> "Dataset":
        """Some of the columns, by their places."""
        return Dataset(
            tuple(self.names[j] for j in kept),
            self.values[:, kept],
            self.intervened[:, kept],
            tuple(self.transforms[j] for j in kept),
            tuple(self.kinds[j] for j in kept),
            tuple(self.levels[j] for j in kept),
        )

    def numeric(self, what: str) -> "Dataset":
        """The table with every column as the numbers it holds, for what knows nothing else.

        Examples
        --------
        >>> frame = pd.DataFrame({"a": ["x", "y", "x", "y"], "b": [1.0, 2.5, 3.0, 4.0]})
        >>> Dataset.from_any(frame).numeric("mechanism 'linear'")
        Traceback (most recent call last):
            ...
        ValueError: mechanism 'linear' is for numbers, and column 'a' holds text such as 'x'; ...
        """
        if not self.discrete.any() and Kind.COUNT not in self.kinds:
            return self
        for name, levels in zip(self.names, self.levels, strict=True):
            text = [level for level in levels if isinstance(level, str)]
            if text:
                raise ValueError(
                    f"{what} is for numbers, and column {show(name)} holds text such as "
                    f"{show(text[0])}; drop it, or leave mechanism='auto'"
                )
        columns = [Column(self.number_column(j), Kind.CONTINUOUS) for j in range(self.m)]
        return self._of(self.names, columns, self.intervened, self.transforms)

    def number_column(self, j: int) -> Float64[np.ndarray, " N"]:
        """A column as numbers: the levels of numeric codes, the codes of others."""
        values, levels = self.values[:, j], self.levels[j]
        if not levels or isinstance(levels[0], str):
            return values
        numbers = np.append(np.array(levels, dtype=np.float64), np.nan)
        return numbers[np.where(np.isnan(values), len(levels), values).astype(np.int64)]

    @property
    def discrete(self) -> Bool[np.ndarray, " m"]:
        """Which columns are discrete: binary, categorical or ordinal."""
        return np.array([kind.discrete for kind in self.kinds], dtype=bool)

    @property
    def continuous(self) -> Bool[np.ndarray, " m"]:
        """Which columns are continuous."""
        return np.array([kind is Kind.CONTINUOUS for kind in self.kinds], dtype=bool)

    @property
    def coding(self) -> Coding:
        """How columns enter the regressions that missing cells are drawn by."""
        return Coding(self.kinds, tuple(map(len, self.levels)))

    def encode(self, frame: pd.DataFrame) -> Float64[np.ndarray, "N k"]:
        """Further rows of some of the columns as values of this table: labels become codes.

        Examples
        --------
        >>> data = Dataset.from_any(pd.DataFrame({"a": ["x", "y"] * 9, "b": np.arange(18.0)}))
        >>> data.encode(pd.DataFrame({"a": ["y"]})).tolist()
        [[1.0]]
        """
        values = np.empty(frame.shape)
        for k, name in enumerate(frame.columns):
            j = self.names.index(name)
            column = frame.iloc[:, k]
            if self.levels[j]:
                values[:, k] = coded(column, self.levels[j], name)
            else:
                values[:, k] = read_column(column, name, "rows", "continuous").values
        return values

    def _transformed(self, transforms: str | Mapping[str, str | None] | None) -> "Dataset":
        wanted = resolve(transforms, self.names)
        if isinstance(transforms, str):
            wanted = tuple(
                None if kind.discrete else name
                for kind, name in zip(self.kinds, wanted, strict=True)
            )
        if not any(wanted):
            return self
        for name, old, new in zip(self.names, self.transforms, wanted, strict=True):
            if old and new:
                raise ValueError(f"transforms: column {show(name)} already went through {old!r}")
        plain = self._of_kinds(
            {n: "continuous" for n, t in zip(self.names, wanted, strict=True) if t}
        )
        values = transform_columns(plain.values, wanted, self.names)
        applied = tuple(new or old for new, old in zip(wanted, self.transforms, strict=True))
        return replace(plain, values=values, transforms=applied)

    @property
    def n_rows(self) -> int:
        """Number of rows, N."""
        return self.values.shape[0]

    @property
    def m(self) -> int:
        """Number of variables, m."""
        return len(self.names)

    @cached_property
    def checksum(self) -> str:
        """SHA-256, in hex, of the names, the shape, the values and the intervention mask.

        The kinds and levels are part of it where not all columns are continuous.
        """
        kinds = [] if self.continuous.all() else [self.kinds, self.levels]
        head = json.dumps([self.names, self.values.shape, *kinds])
        digest = hashlib.sha256(head.encode("ascii"))
        digest.update(np.ascontiguousarray(self.values, dtype="<f8").data)
        digest.update(np.packbits(self.intervened).data)
        return digest.hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """Return a copy of the values as a DataFrame; discrete columns have their labels.

        Examples
        --------
        >>> import numpy as np
        >>> list(Dataset.from_any(np.zeros((2, 2)), names=["a", "b"]).to_frame())
        ['a', 'b']
        """
        columns = pd.Index(self.names, dtype=object)
        if not self.discrete.any():
            return pd.DataFrame(self.values, columns=columns, copy=True)
        return pd.concat(
            [self.labelled(self.values[:, j], j) for j in range(self.m)], axis=1
        ).set_axis(columns, axis=1)

    def labelled(self, values: Float64[np.ndarray, " n"], j: int) -> pd.Series:
        """Values of column j as the table has them: labels for codes."""
        levels = self.levels[j]
        if not levels:
            return pd.Series(values, copy=True)
        labels = np.array([*levels, None], dtype=object)
        found = labels[np.where(np.isnan(values), len(levels), values).astype(np.int64)]
        ordered = self.kinds[j] is Kind.ORDINAL
        if ordered and isinstance(levels[0], str):
            return pd.Series(pd.Categorical(found, categories=list(levels), ordered=True))
        return pd.Series(found).infer_objects()

    def audit(self) -> tuple[audit.Finding, ...]:
        """Return what is worth a warning in the data; raise what makes a fit impossible.

        Raises
        ------
        AuditError
            A ValueError that lists every reason not to fit: missing, infinite or unusably large
            values, constant, identical or exactly collinear columns, fewer than two columns,
            fewer than three rows.

        Examples
        --------
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(100, 2))
        >>> Dataset.from_any(x * [1.0, 50.0]).audit()[0].kind
        'varsortability'
        >>> Dataset.from_any(x * [1.0, 0.0]).audit()
        Traceback (most recent call last):
            ...
        svidag.data.audit.AuditError: column 'x2' is constant (0) in every row; drop it
        """
        return audit.audit(self.names, self.values, self.intervened, self.kinds)

    def standardise(self) -> tuple["Dataset", Scaling]:
        """Return the data with continuous columns centred and scaled to unit variance, and how.

        Mean and standard deviation (divisor N) are over the rows where the column was not
        intervened on, so that an intervention cannot shift the units of a variable. A column
        intervened on in every row is scaled over all rows; a constant one, a discrete one and
        counts keep their units.

        Examples
        --------
        >>> import numpy as np
        >>> data = Dataset.from_any(np.array([[1.0, 4.0], [3.0, 8.0]]))
        >>> standard, scaling = data.standardise()
        >>> standard.values.tolist(), scaling.scale.tolist()
        ([[-1.0, -1.0], [1.0, 1.0]], [1.0, 2.0])
        """
        audit.require_usable(self.names, self.values)
        scaling = scaling_of(self.values, self.intervened, self.continuous)
        return replace(self, values=scaling.apply(self.values)), scaling


def _table(
    data: object, names: Sequence[object] | None, text_column: str | None
) -> tuple[pd.DataFrame, str]:
    """Return the data as a frame of our own, and what to call it in errors."""
    if isinstance(data, str | os.PathLike):
        _reject_names(names)
        return read_table(os.fspath(data), text_column), f"data file {os.fspath(data)}"
    to_pandas = getattr(data, "to_pandas", None)
    frame = to_pandas() if callable(to_pandas) else data
    if isinstance(frame, pd.DataFrame):
        _reject_names(names)
        if isinstance(frame.columns, pd.MultiIndex):
            raise ValueError("data has columns of several levels; expected one name per column")
        return frame.copy(deep=False), "data"
    return _frame_of_array(data, names), "data"


def _reject_names(names: Sequence[object] | None) -> None:
    if names is not None:
        raise ValueError("names is for arrays; this data has names of its own: rename its columns")


def _frame_of_array(data: object, names: Sequence[object] | None) -> pd.DataFrame:
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64), np.nan)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"data is not a 2-d array: {error}") from None
    if array.ndim != 2:
        raise ValueError(
            f"data is a {type(data).__name__} with {array.ndim} dimensions; expected a DataFrame, "
            "a 2-d array, a Dataset, or the path of a CSV, TSV or Parquet file"
        )
    m = array.shape[1]
    if names is None:
        names = [f"x{j + 1}" for j in range(m)]
    if isinstance(names, str) or len(names) != m:
        raise ValueError(f"names is {show(names)}; expected {m} names, one for each column")
    return pd.DataFrame(array, columns=pd.Index(column_names(names, "names"), dtype=object))


def _split_interventions(
    frame: pd.DataFrame, interventions: object, source: str
) -> tuple[pd.DataFrame, Bool[np.ndarray, "N m"]]:
    """Return the frame of variables and their intervention mask."""
    names = list(frame.columns)
    if interventions is None:
        return frame, np.zeros(frame.shape, dtype=bool)
    if not isinstance(interventions, str):
        return frame, mask_from_table(interventions, names, frame.index)
    if interventions not in names:
        raise ValueError(
            f"interventions is {show(interventions)}, which is not a column of {source}"
            f"{closest(interventions, names)}"
        )
    cells = frame.iloc[:, names.index(interventions)]
    variables = frame.drop(columns=interventions)
    where = f"interventions column {show(interventions)} of {source}"
    return variables, mask_from_targets(cells, list(variables.columns), where)
