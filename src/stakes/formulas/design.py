"""The columns that a formula makes of a table, the same ones for every table (by formulae)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from stakes.errors import InputError
from stakes.formulas.grammar import MATHS, Parsed

if TYPE_CHECKING:
    import pandas as pd

MOST_TRIED = 1000
"""Rows that are tried one by one to tell which of them a term refuses."""


class Term(NamedTuple):
    """A term of the formula and its columns in a matrix."""

    name: str
    columns: slice
    labels: tuple[str, ...]


class GroupTerm(NamedTuple):
    """Effects that differ from group to group."""

    name: str
    factor: str
    """What the groups are called: `store`, or `store:year`."""
    columns: tuple[str, ...]
    """Of the table, that tell the groups."""


class Parts(NamedTuple):
    """The columns for the rows of a table."""

    common: np.ndarray
    """Row x column; those of the intercept and of offsets are left out."""
    offset: np.ndarray | None
    groups: dict[str, np.ndarray]
    """Group term -> row x column."""


@final
@dataclass(frozen=True, eq=False)
class Design:
    """What formulae has learned from the first table: levels, knots, means."""

    made: Any
    terms: tuple[Term, ...]
    offsets: tuple[str, ...]
    intercept: bool
    groups: tuple[GroupTerm, ...]

    @classmethod
    def of(cls, parsed: Parsed, frame: "pd.DataFrame") -> "Design":
        from formulae.environment import Environment
        from formulae.matrices import DesignMatrices
        from formulae.model_description import model_description

        # Functions come from here alone: no variable of a caller is in reach.
        functions = Environment([{name: getattr(np, name) for name in MATHS}])
        try:
            with np.errstate(all="ignore"):  # what is not finite is said later, with its row
                made = DesignMatrices(model_description(parsed.right), frame, functions)
        except Exception as error:  # whatever formulae raises about what it cannot make
            raise InputError(f"`formula(text)`: {error}") from error
        common = {} if made.common is None else made.common.terms
        terms, start = [], 0
        for name, term in common.items():
            if term.kind in ("intercept", "offset"):
                continue
            width = 1 if term.data.ndim == 1 else term.data.shape[1]
            terms.append(Term(name, slice(start, start + width), tuple(term.labels)))
            start += width
        return cls(
            made,
            tuple(terms),
            tuple(name for name, term in common.items() if term.kind == "offset"),
            any(term.kind == "intercept" for term in common.values()),
            tuple(
                GroupTerm(name, term.factor.name, tuple(c.name for c in term.factor.components))
                for name, term in ({} if made.group is None else made.group.terms).items()
            ),
        )

    def parts(self, frame: "pd.DataFrame", rows: Any) -> Parts:
        """The columns for the rows of another table, or of the same one."""
        rows_count = len(frame)
        common = {} if self.made.common is None else self.made.common.terms

        def columns(term: Any) -> np.ndarray:
            try:
                with np.errstate(all="ignore"):
                    found = np.asarray(term.eval_new_data(frame), float)
            except ValueError as error:  # such as a category that the first table had not
                raise _refused(term, frame, rows, error) from error
            return _matrix(found, rows_count)

        found = Parts(
            _joined([columns(common[term.name]) for term in self.terms], rows_count),
            _added([columns(common[name]) for name in self.offsets]),
            {group.name: columns(self.made.group.terms[group.name].expr) for group in self.groups},
        )
        named = [(term.name, found.common[:, term.columns]) for term in self.terms]
        named += [] if found.offset is None else [(self.offsets[0], found.offset[:, None])]
        for name, values in [*named, *found.groups.items()]:
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad):
                raise InputError(
                    f"The term `{name}` of the formula has no finite value in row "
                    f"{rows.names(bad[:1])[0]} ({len(bad)} in all)."
                )
        return found


def _refused(term: Any, frame: "pd.DataFrame", rows: Any, error: ValueError) -> InputError:
    """With the rows that have a value which the first table had not, where that is why."""

    def is_refused(at: int) -> bool:
        try:
            term.eval_new_data(frame.iloc[[at]])
        except ValueError:
            return True
        return False

    where = f"The term `{term.name}` of the formula"
    bad = np.array([at for at in range(min(len(frame), MOST_TRIED)) if is_refused(at)], int)
    if not len(bad):
        return InputError(f"{where}: {error}")
    return InputError(
        f"{where}: row {rows.names(bad[:1])[0]} ({len(bad)} in all) has a value that the fit has "
        f"not seen. Leave such rows out, or make the column a group, as `(1 | column)` does, and "
        f"fit again: members of a group may be new. ({error})"
    )


def _matrix(values: np.ndarray, rows: int) -> np.ndarray:
    return np.broadcast_to(values.reshape(len(values), -1), (rows, values.size // len(values)))


def _joined(parts: list[np.ndarray], rows: int) -> np.ndarray:
    return np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0))


def _added(parts: Iterable[np.ndarray]) -> np.ndarray | None:
    listed = list(parts)
    return sum(part[:, 0] for part in listed) if listed else None  # type: ignore[return-value]
