"""What a posterior is asked that other parts of the package answer.

Effects, predictions, experiments, files, pages: each is built on `Posterior` and is imported when
it is first asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import networkx as nx

    import svidag.effects
    from svidag.posterior.sensitivity import Sensitivity
    from svidag.report.drawing import Drawing
    from svidag.report.summary import Summary


class Answers:
    """The questions of a `Posterior` that lead beyond it; only a `Posterior` can be asked."""

    def effect(
        self: Any,
        cause: str,
        effect: str,
        change: Any = 1.0,
        at: Any = None,
        n: int = 1000,
        seed: int = 0,
        *,
        to: Any = None,
        value: Any = None,
        holding: Any = None,
        level: Any = 0.95,
    ) -> svidag.effects.Effect:
        """What moving the cause does to the mean of the effect, over graphs and parameters.

        E[effect | do(cause = at + change)] − E[effect | do(cause = at)]; for a discrete effect the
        change of the probability of one of its values.

        Parameters
        ----------
        cause, effect
            Names of two variables.
        change
            By how much the cause is moved, in its units: those of the table, or of the transformed
            column where the `Dataset` transforms it (a change of 1 in a log column is a factor e).
        at
            From where; by default from the mean of the rows in which it was not set from outside.
            Of no concern to linear mechanisms. A discrete cause goes from its most frequent value.
        to
            Where the cause goes, instead of `change`. A discrete cause goes to the next value of an
            ordinal column, and else to the most frequent of its other values.
        value
            The value of a discrete effect whose probability is meant; by default the last one, of a
            categorical column the most frequent one.
        n
            Number of graphs drawn.
        seed
            The same seed gives the same draws.
        holding
            Other variables and the values at which they are held, which leaves the effect along
            the paths that avoid them: ``{"mediator": 0.0}``.
        level
            Posterior probability of the reported interval.

        Returns
        -------
        Effect
            Mean, interval, the probability that no path leads from cause to effect, the
            probability of each sign, and the spread due to graph and parameters.

        Warns
        -----
        ExtrapolationWarning
            If a variable is set to a value far outside those that were observed.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.two_node("linear", n=500)
        >>> prior = svidag.Prior(required=[("x1", "x2")])
        >>> posterior = svidag.exact.posterior(example.data, prior=prior)
        >>> round(posterior.effect("x1", "x2").mean, 1)
        1.0
        """
        from svidag.effects import total_effect

        return total_effect(
            self,
            cause,
            effect,
            change=change,
            at=at,
            to=to,
            value=value,
            holding=holding,
            n=n,
            seed=seed,
            level=level,
        )

    def do(self: Any, values: Any, n: int = 1000, seed: int = 0) -> pd.DataFrame:
        """Draw n rows of all variables while some are held at given values.

        Graph and parameters are drawn anew for each row. Values are in the units of the table, or
        of the transformed columns where the `Dataset` transforms them. Two calls with the same
        seed follow the same units, so that their rows may be compared one by one. A value far
        outside those that were observed gives an `ExtrapolationWarning`.

        Examples
        --------
        >>> import svidag
        >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=500).data)
        >>> posterior.do({"x1": 2.0}, n=100).shape
        (100, 2)
        """
        from svidag.effects import interventional

        return interventional(self, values, n=n, seed=seed)

    def predict(
        self: Any,
        rows: Any,
        columns: Sequence[str] | str | None = None,
        n: int = 200,
        seed: int = 0,
        *,
        level: float | None = None,
    ) -> pd.DataFrame:
        """E[column | the other columns of the row, data], averaged over graphs and parameters.

        Parameters
        ----------
        rows
            A frame with columns of the table, in its units (those of a transformed column are
            transformed).
        columns
            What to predict; by default every variable that `rows` lacks. Values of it that are in
            `rows` are not used.
        n, seed
            Draws of graph and parameters.
        level
            If given, the columns `low` and `high` hold the central interval with this probability.

        Returns
        -------
        pandas.DataFrame
            A column for each predicted variable; with a level, `mean`, `low` and `high` of each. Of
            discrete variables the probability of every value, in columns (variable, value).

        Examples
        --------
        >>> import svidag
        >>> table = svidag.datasets.two_node("linear", n=500).data
        >>> posterior = svidag.exact.posterior(table)
        >>> posterior.predict(table[["x1"]].head(3)).shape
        (3, 1)
        """
        from svidag.effects import predict

        return predict(self, rows, columns, n=n, seed=seed, level=level)

    def next_experiments(
        self: Any,
        rows: int = 100,
        *,
        about: tuple[str, str] | None = None,
        values: Any = None,
        n: int = 100,
        seed: int = 0,
    ) -> svidag.effects.Experiments:
        """The expected information from setting each variable, the most informative first.

        Parameters
        ----------
        rows
            How many further rows the experiment has.
        about
            A pair (cause, effect): information about that effect; by default about the graph.
        values
            The values to which a variable is set, in turn over the rows, by name; by default the
            observed values at 10 % and 90 %, and all of a binary or categorical variable.
        n, seed
            Simulated experiments for each variable; their scatter gives the standard error.

        Examples
        --------
        >>> import svidag
        >>> posterior = svidag.exact.posterior(svidag.datasets.two_node("linear", n=500).data)
        >>> found = posterior.next_experiments(rows=20, n=20)
        >>> bool(found.bits[0] > found.observing)
        True
        """
        from svidag.effects import next_experiments

        return next_experiments(self, rows, about=about, values=values, n=n, seed=seed)

    def sensitivity(self: Any) -> Sensitivity:
        """What becomes of sure arrows under other margins, mechanisms and resamples.

        A fit with ``bags="auto"`` has tried that; for another one the probes are run now.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.synthetic(m=4, edges=3, n=200, seed=1)
        >>> posterior = svidag.fit(example.data, mechanism="linear", progress=False)
        >>> bool(posterior.sensitivity().flipped.any())
        False
        """
        if self.diagnostics is not None and self.diagnostics.sensitivity is not None:
            return self.diagnostics.sensitivity
        from svidag.methods.bagging import probe_posterior

        return probe_posterior(self)

    def save(self: Any, path: str | os.PathLike[str]) -> Path:
        """Write everything to one file, in one step; `svidag.load` reads it back.

        The file holds the table too: share it as you would share the data.
        """
        from svidag.io import save

        return save(self, path)

    def to_networkx(
        self: Any, threshold: float | None = None, *, graph: pd.DataFrame | None = None
    ) -> nx.DiGraph:
        """The consensus graph, or all arrows above a threshold, with their probabilities.

        The consensus is acyclic and its nodes are column names, as DoWhy wants them. A labelled
        `graph`, for instance from `top_graphs`, takes its place.
        """
        from svidag.export import to_networkx

        return to_networkx(self, threshold, graph=graph)

    def to_pgmpy(self: Any, graph: pd.DataFrame | None = None) -> Any:
        """The consensus graph, or a given one, as a pgmpy ``DAG``; needs svidag[pgmpy]."""
        from svidag.export import to_pgmpy

        return to_pgmpy(self, graph)

    def to_arviz(self: Any, n: int = 1000, seed: int = 0) -> Any:
        """n drawn graphs with prior and data, as ``InferenceData`` or, from ArviZ 1.0, a DataTree.

        Draws are a dimension of their own and no chains, since no R-hat applies to them; needs
        svidag[arviz].
        """
        from svidag.export import to_arviz

        return to_arviz(self, n, seed)

    def report(self: Any, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that shows all this and opens offline; its path is returned."""
        from svidag.report import write

        return write(self, path)

    def summary(self: Any) -> Summary:
        """The verdict, the mechanism and what is known of each pair, as text to print."""
        from svidag.report.summary import summarise

        return summarise(self)

    def plot(
        self: Any, path: str | os.PathLike[str] | None = None, *, threshold: float = 0.5
    ) -> Drawing:
        """Draw the graph with its probabilities; a notebook shows it.

        Solid arrows are decided, dashed ones favoured, dashed lines have no decided direction.

        Parameters
        ----------
        path
            Where to write it: ``.svg``, or ``.png``, which needs svidag[plot].
        threshold
            What is less probable is not drawn.

        Examples
        --------
        >>> import svidag
        >>> example = svidag.datasets.synthetic(m=4, edges=3, n=100, seed=1)
        >>> svidag.exact.posterior(example.data).plot().svg[:4]
        '<svg'
        """
        from svidag.report.drawing import draw

        return draw(self, path, threshold)

    def _repr_html_(self: Any) -> str:
        return self.summary().html()
