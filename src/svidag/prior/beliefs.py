"""What a scientist believes and knows about edges, by name."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool

from svidag.prior import knowledge, statement, words
from svidag.prior.edges import EdgePrior
from svidag.prior.statement import Edge

if TYPE_CHECKING:
    Number: TypeAlias = float
    Values: TypeAlias = Mapping[Edge, float] | pd.DataFrame
    Pairs: TypeAlias = Iterable[Sequence[str]]
    Tiers: TypeAlias = Iterable[Iterable[str]]
else:
    # At run time the constructor checks, with messages that name the entry.
    Number = Values = Pairs = Tiers = Any


EXPECTED_PARENTS = 0.4
"""The default of `Prior.expected_parents`: fewer than most graphs have, since a wrong arrow costs
more trust than a weak one that takes more rows to find."""

SURE_SHRINKAGE = 1e-4
"""A base belief of exactly 0 or 1 stays soft: low confidence pulls towards this, or 1 less this."""


class BeliefWarning(UserWarning):
    """A belief with little confidence moves its pair against the direction it states."""


@dataclass(frozen=True)
class Prior:
    """What is believed and known about edges, by name, before a table is seen.

    Parameters
    ----------
    p
        Belief in an edge, for every ordered pair. None: ``min(1/2, 2e/(m − 1))``, with which a
        variable has about e parents, since half of the pairs point backward in the order.
    expected_parents
        The e above; used when `p` is None. The default, 0.4, expects fewer arrows than most graphs
        have, so that a weak one needs evidence of its own.
    beliefs
        ``{(cause, effect): p}``, or a DataFrame with causes as rows and effects as columns (NaN
        where nothing is stated). They override single pairs. A belief of exactly 0 or 1 is
        strong but still soft; use `forbidden` and `required` for certainty.
    confidence
        Concentration ν of what is stated: of `beliefs` if there are any, otherwise of `p`. One
        number for all, or one for each belief in the form of `beliefs`. Pairs without one have
        ν = nu_min + kappa |p − ½|^eta, the paper's rule.
    shrink_to
        Where low confidence pulls a pair: s in α = νp + 2s, β = ν(1 − p) + 2(1 − s). None: to the
        belief of pairs that nothing is stated about, whose probability is then `p` itself. The
        paper's ½ *adds* edges to a sparse prior: with 1000 variables, 5 parents each.
    required, forbidden
        Pairs (cause, effect) that are certainly edges, certainly not edges.
    tiers
        Lists of variables, earliest first: a variable causes none in an earlier tier. Variables
        in no tier are free.
    closed_tiers
        Places in `tiers`, counted from 0, of tiers without edges among their own variables.
    search_space
        If not empty, the only pairs that may be edges.
    nu_min, kappa, eta
        Constants of the paper's rule.

    Notes
    -----
    A belief is about B_ij. The arrow i → j also needs i before j in the order, which has
    probability ½ when nothing is required, so the prior probability of the arrow is about half
    the belief; `EdgePrior.edge_probabilities` gives it.

    Examples
    --------
    >>> prior = Prior(p=0.2, beliefs={("smoking", "cancer"): 0.9}, tiers=[["smoking"], ["cancer"]])
    >>> edges = prior.bind(["smoking", "cancer"])
    >>> edges.marginal.round(3).tolist()
    [[0.0, 0.883], [0.0, 0.0]]
    """

    p: Number | None = None
    expected_parents: Number = EXPECTED_PARENTS
    beliefs: Values = field(default_factory=dict)
    confidence: Number | Values | None = None
    shrink_to: Number | None = None
    required: Pairs = ()
    forbidden: Pairs = ()
    tiers: Tiers = ()
    _: KW_ONLY
    closed_tiers: Any = ()
    search_space: Pairs = ()
    nu_min: Number = 1.0
    kappa: Number = 500.0
    eta: Number = 2.0

    def __post_init__(self) -> None:
        for name, value in self._checked().items():
            object.__setattr__(self, name, value)
        self._check_use()
        statement.check_required(self._edges("required"), self._deletions())
        statement.check_beliefs(self._beliefs(), self._edges("required"), self._deletions())

    def _checked(self) -> dict[str, Any]:
        """Every field in its one form: floats, dictionaries and tuples."""
        numbers = {
            name: statement.number(getattr(self, name), name)
            for name in ("expected_parents", "nu_min", "kappa", "eta")
        }
        shrink_to = self.shrink_to
        if shrink_to is not None and not 0 < statement.number(shrink_to, "shrink_to", high=1.0) < 1:
            raise ValueError(f"shrink_to must lie strictly between 0 and 1, got {shrink_to!r}")
        tiers = statement.tiers(self.tiers)
        return numbers | {
            "p": None if self.p is None else statement.number(self.p, "p", high=1.0),
            "shrink_to": None if shrink_to is None else float(shrink_to),
            "beliefs": statement.values_by_edge(self.beliefs, "beliefs", high=1.0),
            "confidence": _confidence(self.confidence),
            "required": statement.edges(self.required, "required"),
            "forbidden": statement.edges(self.forbidden, "forbidden"),
            "tiers": tiers,
            "closed_tiers": statement.closed_tiers(self.closed_tiers, len(tiers)),
            "search_space": statement.edges(self.search_space, "search_space"),
        }

    def _check_use(self) -> None:
        """Raise if something is given that nothing else would use."""
        if self.p is not None and self.expected_parents != EXPECTED_PARENTS:
            raise ValueError("p and expected_parents both set the base belief; give one of them")
        if isinstance(self.confidence, Mapping):
            for pair in self.confidence:
                if pair not in self._beliefs():
                    raise ValueError(
                        f"confidence is given for {statement.arrow(pair)}, but no belief is"
                    )
        elif self.confidence is not None and self.p is None and not self._beliefs():
            raise ValueError("confidence is given, but neither p nor beliefs state anything")

    # The constructor takes several forms of a field; these give the one that is stored.

    def _beliefs(self) -> dict[Edge, float]:
        return self.beliefs  # pyright: ignore[reportReturnType]

    def _edges(self, name: str) -> tuple[Edge, ...]:
        return getattr(self, name)

    def _tiers(self) -> tuple[tuple[str, ...], ...]:
        return self.tiers  # pyright: ignore[reportReturnType]

    def _deletions(self) -> statement.Deletions:
        return statement.Deletions.of(
            self._edges("forbidden"), self._tiers(), self.closed_tiers, self._edges("search_space")
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Prior":
        """Build from plain data, in the words of this class, of pgmpy or of benchpress.

        Examples
        --------
        >>> Prior.from_dict({"temporal_order": [["a"], ["b"]]}).tiers
        (('a',), ('b',))
        """
        return cls(**words.from_words(data))

    @classmethod
    def from_file(cls, path: str | Path) -> "Prior":
        """Read a knowledge file: YAML, JSON, CSV or a Tetrad text file.

        The YAML form has the words of this class, all optional::

            p: 0.1                        # or expected_parents: 2
            beliefs:
              - {from: PKA, to: Raf, p: 0.9, confidence: 20}
            required:
              - [Raf, Mek]                # or {from: Raf, to: Mek}
            forbidden:
              - [Akt, PKC]
            tiers:                        # earliest first
              - [PKC, PKA]
              - [Raf, Mek]
            closed_tiers: [0]             # no edges within the first tier

        pgmpy's words (`required_edges`, `forbidden_edges`, `temporal_order`, `search_space`) and
        benchpress's (`tier_settings`, `forbidden_groups`, `required_groups`) are read too, in
        YAML or JSON. A CSV file has columns `from` and `to`, and `p` (with `confidence`) for
        beliefs or `status` (`required` or `forbidden`); a bnlearn list without either is
        understood if its name has "whitelist" or "blacklist" in it. A Tetrad file has sections
        `addtemporal` (`2*` closes a tier), `forbiddirect`, `requiredirect`.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "knowledge.yaml"
        >>> _ = path.write_text("required: [[Raf, Mek]]")
        >>> Prior.from_file(path).required
        (('Raf', 'Mek'),)
        """
        fields = knowledge.read(path)
        with statement.prefixed(path):
            return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Give plain data for `from_dict`, YAML or JSON; fields at their default are left out.

        Examples
        --------
        >>> Prior(beliefs={("a", "b"): 0.9}).to_dict()
        {'beliefs': [{'from': 'a', 'to': 'b', 'p': 0.9}]}
        """
        return words.to_words(
            {name: getattr(self, name) for name in self.__dataclass_fields__},
            {name: getattr(Prior(), name) for name in self.__dataclass_fields__},
        )

    def to_file(self, path: str | Path) -> None:
        """Write a YAML file that `from_file` reads back as an equal prior; never half a file.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "knowledge.yaml"
        >>> Prior(p=0.3).to_file(path)
        >>> Prior.from_file(path) == Prior(p=0.3)
        True
        """
        knowledge.write(path, self.to_dict())

    def concentration(self, p: float) -> float:
        """ν = ν_min + κ |p − ½|^η, the paper's rule.

        Examples
        --------
        >>> Prior().concentration(1.0)
        126.0
        """
        return self.nu_min + self.kappa * abs(p - 0.5) ** self.eta

    def base_belief(self, m: int) -> float:
        """Give the belief on pairs that `beliefs` does not name, for a table of m variables.

        Examples
        --------
        >>> Prior(expected_parents=2).base_belief(21)
        0.2
        """
        if self.p is not None:
            return self.p
        return min(0.5, 2 * self.expected_parents / (m - 1)) if m > 1 else 0.5

    def bind(self, names: Sequence[str]) -> EdgePrior:
        """Turn names into matrices for a table with these columns.

        Raises
        ------
        ValueError
            If a column is named twice, or a name in the prior is not a column.

        Warns
        -----
        BeliefWarning
            If a belief with little confidence moves a pair against the direction it states.

        Examples
        --------
        >>> edges = Prior(p=0.5, required=[("a", "b")]).bind(["a", "b", "c"])
        >>> edges.required.astype(int).tolist()
        [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
        """
        index = _index(names)
        statement.check_columns(self._named(), list(index))
        m, base = len(index), self.base_belief(len(index))
        belief, nu = np.full((m, m), base), np.full((m, m), self._base_concentration(base))
        for (cause, effect), stated in self._concentrations().items():
            cell = index[cause], index[effect]
            belief[cell], nu[cell] = self._beliefs()[cause, effect], stated
        beta = self._beta(belief, nu, base)
        edges = EdgePrior(tuple(index), belief, nu, *beta, *self._hard(index))
        self._warn_of_reversals(edges, base)
        return edges

    def _base_concentration(self, base: float) -> float:
        if isinstance(self.confidence, float) and not self._beliefs():
            return self.confidence
        return self.concentration(base)

    def _concentrations(self) -> dict[Edge, float]:
        """ν of every stated belief."""
        beliefs = self._beliefs()
        if isinstance(self.confidence, float):
            return dict.fromkeys(beliefs, self.confidence)
        stated = self.confidence if isinstance(self.confidence, Mapping) else {}
        return {pair: self.concentration(p) for pair, p in beliefs.items()} | dict(stated)

    def _beta(self, p: Any, nu: Any, base: float) -> tuple[Any, Any]:
        """α = νp + 2s, β = ν(1 − p) + 2(1 − s)."""
        s = self._shrink_to(base)
        return nu * p + 2 * s, nu * (1 - p) + 2 * (1 - s)

    def _shrink_to(self, base: float) -> float:
        """The s above: as stated, or the base belief."""
        if self.shrink_to is None:
            return min(max(base, SURE_SHRINKAGE), 1 - SURE_SHRINKAGE)
        return float(self.shrink_to)

    def _hard(
        self, index: Mapping[str, int]
    ) -> tuple[Bool[np.ndarray, "m m"], Bool[np.ndarray, "m m"]]:
        deletions = self._deletions()
        allowed = np.array(
            [[a != b and deletions.reason((a, b)) is None for b in index] for a in index]
        )
        required = np.zeros_like(allowed)
        for cause, effect in self._edges("required"):
            required[index[cause], index[effect]] = True
        return allowed, required

    def _named(self) -> Iterator[tuple[str, str]]:
        """Every (argument, name) that the user wrote."""
        for pair in self._beliefs():
            yield from (("beliefs", name) for name in pair)
        for argument in ("required", "forbidden", "search_space"):
            for pair in self._edges(argument):
                yield from ((argument, name) for name in pair)
        for k, tier in enumerate(self._tiers()):
            yield from ((f"tiers[{k}]", name) for name in tier)

    def _warn_of_reversals(self, edges: EdgePrior, base: float) -> None:
        alpha, beta = self._beta(base, self.concentration(base), base)
        level = alpha / (alpha + beta)
        found = list(self._reversals(edges, level, self._shrink_to(base)))
        if found:
            more = f" and {len(found) - 5} more" if len(found) > 5 else ""
            warnings.warn(
                f"low confidence moves beliefs across the {level:.3g} of an unmentioned pair, "
                f"against their own direction: {', '.join(found[:5])}{more}. Raise the confidence, "
                "or leave shrink_to out, so that low confidence pulls towards the base",
                BeliefWarning,
                stacklevel=3,
            )

    def _reversals(self, edges: EdgePrior, level: float, shrink_to: float) -> Iterator[str]:
        """Beliefs weaker than the rule's that end on the other side of the base marginal."""
        marginal = pd.DataFrame(edges.marginal, edges.names, edges.names)
        for pair, nu in self._concentrations().items():
            p, q = self._beliefs()[pair], marginal.at[pair]
            across = q > 0 and (p < level < q or q < level < p)
            if across and pair not in self._edges("required") and nu < self.concentration(p):
                enough = 2 * (shrink_to - level) / (level - p)
                yield (
                    f"{statement.arrow(pair)} (belief {p:g}, confidence {nu:g}: {q:.3g}; "
                    f"confidence above {enough:.3g} would do)"
                )


def _confidence(stated: Any) -> float | dict[Edge, float] | None:
    if stated is None:
        return None
    if isinstance(stated, Mapping | pd.DataFrame):
        return statement.values_by_edge(stated, "confidence")
    return statement.number(stated, "confidence")


def _index(names: Sequence[str]) -> dict[str, int]:
    if not len(names):
        raise ValueError("names must list at least one column")
    index: dict[str, int] = {}
    for k, name in enumerate(names):
        if index.setdefault(statement.label(name, f"names[{k}]"), k) != k:
            raise ValueError(f"names lists {name!r} twice, at places {index[name]} and {k}")
    return index
