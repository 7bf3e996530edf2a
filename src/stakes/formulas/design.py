"""From a table to the columns of a formula, by formulae: the same columns for every table.

What depends on the data of the fit, such as levels of categories, knots of splines and means, is
learned from the first table and kept.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from stakes.errors import InputError
from stakes.formulas.families import FAMILIES
from stakes.formulas.grammar import MATHS, Parsed
from stakes.tables import DATE_PARTS, DAYS, Coding, Read, TableRows, Wanted, read

if TYPE_CHECKING:
    import pandas as pd
    from formulae.matrices import DesignMatrices

# The most rows that are tried one by one to tell which of them a term refuses.
MOST_TRIED = 1000


class Term(NamedTuple):
    """A term of the formula, and its columns in a matrix.

    Attributes:
        name: as formulae calls it, such as `sun` or `bs(x, df=5)`.
        columns: their places in the matrix of all terms.
        labels: a label for each column.
    """

    name: str
    columns: slice
    labels: tuple[str, ...]


class GroupTerm(NamedTuple):
    """A term with effects that differ from group to group.

    Attributes:
        name: as formulae calls it, such as `1|store`.
        factor: what tells the groups apart, such as `store` or `store:year`.
        columns: of the table, that the factor is made of.
    """

    name: str
    factor: str
    columns: tuple[str, ...]

    @property
    def is_level(self) -> bool:
        """Whether it gives each group a level of its own, and no slope."""
        return self.name.startswith("1|")


class Parts(NamedTuple):
    """The columns for the rows of a table.

    Attributes:
        common: row x column; those of the intercept and of offsets are left out.
        offset: what is added as it is, for each row; None where nothing is.
        groups: group term -> row x column.
    """

    common: np.ndarray
    offset: np.ndarray | None
    groups: dict[str, np.ndarray]


@final
@dataclass(frozen=True, eq=False)
class Design:
    """What formulae has learned from the first table: levels, knots, means.

    Attributes:
        made: the matrices of formulae.
        terms: the terms with the same effect in all rows.
        offsets: the names of offsets.
        intercept: whether there is one.
        groups: the terms with effects that differ from group to group.
    """

    made: "DesignMatrices"
    terms: tuple[Term, ...]
    offsets: tuple[str, ...]
    intercept: bool
    groups: tuple[GroupTerm, ...]

    @classmethod
    def of(cls, parsed: Parsed, frame: "pd.DataFrame") -> "Design":
        """Learn the design from the first table.

        Args:
            parsed: the formula, found harmless.
            frame: its columns.
        """
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
        grouped = {} if made.group is None else made.group.terms
        terms, start = [], 0
        for name, term in common.items():
            if term.kind in ("intercept", "offset"):
                continue
            width = 1 if term.data.ndim == 1 else term.data.shape[1]
            terms.append(Term(name, slice(start, start + width), tuple(term.labels)))
            start += width
        offsets = tuple(name for name, term in common.items() if term.kind == "offset")
        intercept = any(term.kind == "intercept" for term in common.values())
        groups = tuple(
            GroupTerm(name, term.factor.name, tuple(c.name for c in term.factor.components))
            for name, term in grouped.items()
        )
        return cls(made, tuple(terms), offsets, intercept, groups)

    def parts(self, frame: "pd.DataFrame", rows: TableRows) -> Parts:
        """Return the columns of the design for the rows of this table or of another one.

        Args:
            frame: the columns that the formula uses.
            rows: the names of the rows, for messages.
        """
        count = len(frame)
        common = {} if self.made.common is None else self.made.common.terms

        def columns(term: Any) -> np.ndarray:
            """Row x column, of a term of formulae."""
            try:
                with np.errstate(all="ignore"):
                    values = np.asarray(term.eval_new_data(frame), float)
            except ValueError as error:  # such as a category that the first table had not
                raise _refused(term, frame, rows, error) from error
            return np.broadcast_to(
                values.reshape(len(values), -1), (count, values.size // len(values))
            )

        matrices = [columns(common[term.name]) for term in self.terms]
        offsets = [columns(common[name])[:, 0] for name in self.offsets]
        parts = Parts(
            np.concatenate(matrices, axis=1) if matrices else np.zeros((count, 0)),
            np.sum(offsets, axis=0) if offsets else None,
            {group.name: columns(self.made.group.terms[group.name].expr) for group in self.groups},
        )
        named = [(term.name, parts.common[:, term.columns]) for term in self.terms]
        named += [] if parts.offset is None else [(self.offsets[0], parts.offset[:, None])]
        for name, values in [*named, *parts.groups.items()]:
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad):
                raise InputError(
                    f"The term `{name}` of the formula has no finite value in row "
                    f"{rows.names(bad[:1])[0]} ({len(bad)} in all)."
                )
        return parts


def _refused(term: Any, frame: "pd.DataFrame", rows: TableRows, error: ValueError) -> InputError:
    """The error for a table with values that the first table did not have.

    Rows are tried one by one, to name those that are refused.
    """

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


def framed(
    table: object, parsed: Parsed, coding: Coding | None, *, needs_outcome: bool
) -> "tuple[pd.DataFrame, Read]":
    """Read the columns of the formula: numbers, and categories with an order, as formulae takes
    them.

    Args:
        table: of the user.
        parsed: the formula.
        coding: what numbers stand for in the table of the fit; None for that table itself.
        needs_outcome: whether there must be outcomes.

    Returns:
        The columns of its right side, and all columns as they were read.
    """
    import pandas as pd

    right = tuple(dict.fromkeys((*parsed.names, *parsed.groups)))
    needed = (*right, parsed.trials) if isinstance(parsed.trials, str) else right
    wanted = Wanted((*needed, parsed.response), needed, parsed.response, "formula")
    only_groups = [name for name in parsed.groups if name not in parsed.names]
    data = read(table, wanted, coding, counted=only_groups, needs_outcome=needs_outcome)
    columns: dict[str, Any] = {}
    for name in right:
        words, values = data.coding.categories.get(name), data.arguments[name]
        if words is None:
            columns[name] = values
        else:
            levels = pd.Index([str(word) for word in words])
            columns[name] = pd.Categorical.from_codes(values, levels, ordered=True)
    return pd.DataFrame(columns, index=range(len(data.rows))), data


def members_of(
    frame: "pd.DataFrame", columns: Sequence[str]
) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """The members of groups.

    Args:
        frame: the columns of the formula.
        columns: those that tell the groups apart.

    Returns:
        The number of the group of each row, and the labels of all groups.
    """
    listed = [frame[name].tolist() for name in columns]
    labels = (
        listed[0]
        if len(listed) == 1
        else [":".join(map(str, e)) for e in zip(*listed, strict=True)]
    )
    groups = tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))
    places = {group: place for place, group in enumerate(groups)}
    return np.array([places[label] for label in labels], np.int32), groups


def trials_of(trials: str | int, table: Read, rows: int) -> np.ndarray:
    """The number of trials of each row, which must be whole and not negative."""
    values = np.full(rows, trials) if isinstance(trials, int) else table.arguments[trials]
    bad = np.flatnonzero((values < 0) | (values != np.round(values)))
    if len(bad):
        raise InputError(
            f"The numbers of trials must be whole and not negative; row "
            f"{table.rows.names(bad[:1])[0]} has {values[bad[0]]}."
        )
    return values.astype(np.int32)


def check_outcomes(family: str, name: str, outcomes: np.ndarray, rows: TableRows) -> None:
    """Refuse outcomes that the family cannot have, with their row."""
    bad = np.flatnonzero(~FAMILIES[family].allows(outcomes))
    if len(bad):
        raise InputError(
            f"`formula(family={family!r})` is for outcomes that are {FAMILIES[family].rule}; "
            f"{name!r} is {outcomes[bad[0]]} in row {rows.names(bad[:1])[0]}"
            f"{f', and {len(bad) - 1} more are not allowed' if len(bad) > 1 else ''}."
        )


def parts_of_dates(columns: Sequence[str]) -> list[str]:
    """The names of all parts of dates that a formula may ask of these columns."""
    return [f"{name}_{part}" for name in columns for part in (*DATE_PARTS, DAYS)]
