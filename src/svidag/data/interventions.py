"""Which entries of the table were set by an intervention."""

import re
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from svidag.data.columns import MISSING_WORDS, closest, column_names, show


def mask_from_targets(
    cells: pd.Series, names: Sequence[str], source: str
) -> Bool[np.ndarray, "N m"]:
    """Return the mask of a column whose cells name the targets of each row.

    A cell is one column's name, several names separated by ``;`` or ``,``, or empty (also NaN,
    None) for none. A name that itself holds a separator is recognised when it stands alone.
    """
    try:
        codes, distinct = pd.factorize(cells)
    except TypeError:
        raise ValueError(
            f"{source}: expected each cell to be text naming targets, separated by ';'"
        ) from None
    masks = np.zeros((len(distinct) + 1, len(names)), dtype=bool)
    positions = {name: j for j, name in enumerate(names)}
    for k, cell in enumerate(distinct):
        for target in _targets(cell, positions):
            if target not in positions:
                row = int(np.argmax(codes == k))
                raise ValueError(
                    f"{source}: row {row} (counting from 0) has the target {show(target)}, "
                    f"which is not a column{closest(target, names)}; "
                    "leave the cell empty for no intervention"
                )
            masks[k, positions[target]] = True
    # A missing cell has the code -1, the last mask, which targets nothing.
    return masks[codes]


def _targets(cell: Hashable, positions: dict[str, int]) -> list[str]:
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        cell = int(cell)
    text = str(cell)
    if text in positions:
        return [text]
    parts = [part.strip() for part in re.split("[;,]", text)]
    return [part for part in parts if part in positions or part not in MISSING_WORDS]


def mask_from_table(
    table: object, names: Sequence[str], index: pd.Index
) -> Bool[np.ndarray, "N m"]:
    """Return the mask given as a boolean table.

    An array has the shape [N, m] of the data. A frame is matched by column name, and columns it
    lacks were never intervened on; rows are matched by position.
    """
    if isinstance(table, pd.DataFrame):
        return _mask_from_frame(table, names, index)
    shape = (len(index), len(names))
    try:
        array = np.asarray(table)
    except ValueError:
        array = np.empty(0)
    if array.shape != shape:
        raise ValueError(
            f"interventions has the shape {array.shape}; expected {shape} as the data, "
            "a boolean frame, or the name of a column that names each row's targets"
        )
    return _booleans(pd.DataFrame(array), names)


def _mask_from_frame(
    frame: pd.DataFrame, names: Sequence[str], index: pd.Index
) -> Bool[np.ndarray, "N m"]:
    targets = column_names(frame.columns, "interventions")
    for target in targets:
        if target not in names:
            raise ValueError(
                f"interventions has the column {show(target)}, which is not a column of the data"
                f"{closest(target, names)}"
            )
    if len(frame) != len(index):
        raise ValueError(
            f"interventions has {len(frame)} rows; expected {len(index)}, one for each row of data"
        )
    if not frame.index.equals(index) and set(frame.index) == set(index):
        raise ValueError(
            "interventions has the row labels of the data in another order; "
            "reorder it, since rows are matched by position"
        )
    mask = np.zeros((len(index), len(names)), dtype=bool)
    mask[:, [list(names).index(target) for target in targets]] = _booleans(frame, targets)
    return mask


def _booleans(frame: pd.DataFrame, names: Sequence[str]) -> Bool[np.ndarray, "N k"]:
    mask = np.zeros(frame.shape, dtype=bool)
    for j, name in enumerate(names):
        column = frame.iloc[:, j]
        bad = ~column.isin([0, 1]).to_numpy(dtype=bool)
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"interventions has {show(column.iloc[row])} in column {show(name)}, "
                f"row {row} (counting from 0); expected True or False"
            )
        mask[:, j] = column.to_numpy(dtype=bool)
    return mask


def row_groups(
    intervened: Bool[np.ndarray, "N m"],
) -> tuple[Bool[np.ndarray, "N groups"], Int[np.ndarray, " m"]]:
    """Return the distinct columns of the negated mask, sorted, and which of them each column has.

    Variables of a group were left alone in the same rows. It is what ``np.unique`` gives, which
    needs half a minute for a million rows.

    Examples
    --------
    >>> masks, group = row_groups(np.array([[True, False, True], [False, False, False]]))
    >>> masks.T.tolist(), group.tolist()
    ([[False, True], [True, True]], [0, 1, 0])
    """
    packed = [np.packbits(~column).tobytes() for column in intervened.T]
    distinct = sorted(set(packed))
    first = [packed.index(content) for content in distinct]
    return ~intervened[:, first], np.array([distinct.index(content) for content in packed])
