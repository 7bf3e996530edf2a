"""Data as they are given: a mapping from the model's arguments to arrays, or a table.

Either way they become arrays for the model. Of a table, the coding of words and dates is kept, so
that new rows get the same numbers for the same words.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeGuard,
    cast,
    runtime_checkable,
)

import numpy as np

from stakes._types import Data, TableLike
from stakes.arguments import Columns, arguments_of, columns_of
from stakes.bridge import ModelTrace
from stakes.errors import InputError, name_of
from stakes.problem import Problem
from stakes.tables import Coding, Read, Stream, Wanted, is_table, read

if TYPE_CHECKING:
    import xarray as xr

# Data as users give them: the model's arguments by name, or a table.
InputData: TypeAlias = Data | TableLike | Stream
# Plate -> a label for each member.
Coords: TypeAlias = Mapping[str, Sequence[Any]]


@runtime_checkable
class ReadsTables(Protocol):
    """A model, such as one of `formula`, that makes its arguments of a table itself."""

    def read_table(self, table: object, *, needs_outcome: bool) -> Read:
        """Return the arguments that the model makes of a table."""
        ...


def reads_tables(model: object) -> TypeGuard[ReadsTables]:
    """Return whether a model makes its arguments of a table itself."""
    return isinstance(model, ReadsTables)


class CheckedData(NamedTuple):
    """Checked data, and the table that they come from.

    Attributes:
        table: the table without the arguments, which are the data; None if the data are a mapping.
        fitted: the table of the fit; for the data of the fit, the same as `table`.
        columns: names of the columns of arguments that are tables themselves.
    """

    data: Data
    table: Read | None = None
    fitted: Read | None = None
    columns: Mapping[str, Columns] = MappingProxyType({})

    def coords(self, cases: ModelTrace, known: Coords | None) -> Coords | None:
        """Return labels of members: those given, of the table's rows, and of categories with a
        plate.

        Args:
            cases: the model on the data of the fit.
            known: labels that the user gave, which go before all others.
        """
        if self.table is None:
            return known
        labels: dict[str, Any] = {
            plate: list(members) for plate, members in self.table.members.items()
        }
        if self.fitted is not None and not labels:
            categories, plates = self.table.coding.categories, _plates(cases, self.fitted.coding)
            labels = {p: list(categories[n]) for n, p in plates.items() if n in categories}
        rows = self.table.rows.labels
        if rows is not None and self.fitted is not None:
            by_row = cases.instances.shape == (len(self.fitted.rows),)
            labels |= {cases.instances.dims[0]: rows} if by_row else {}
        return labels | dict(known or {})


def read_data(
    problem: Problem,
    data: InputData,
    *,
    needs_outcome: bool,
    fit: CheckedData | None = None,
    cases: ModelTrace | None = None,
) -> CheckedData:
    """Return the data as arrays, or an error that names the argument, the rule and the rows.

    Args:
        problem: what the data are for.
        data: a mapping from the model's arguments to arrays, or a table.
        needs_outcome: whether the outcomes have to be there, and whole.
        fit: the data of the fit, where these are others.
        cases: the model on the data of the fit.
    """
    if isinstance(data, Stream):
        raise InputError(
            f"`{data!r}` is for `calibrate`, which takes its rows in minibatches; all else needs "
            f"them at once. Decide about a file with `stakes decide`, or give part after part."
        )
    if isinstance(data, Read):
        checked = problem.check_data(data.arguments, needs_outcome=needs_outcome)
        table = data._replace(arguments={})
        return CheckedData(checked, table, table)
    if not is_table(data):
        columns = None if fit is None else fit.columns
        arrays = cast(Data, data)
        checked = problem.check_data(arrays, needs_outcome=needs_outcome, columns=columns)
        return CheckedData(checked, columns=columns_of(arrays))
    model = problem.model
    beside = problem.named_needs
    if reads_tables(model):
        table = model.read_table(data, needs_outcome=needs_outcome)
        asked = tuple(name for name in beside if name not in table.arguments)
        if asked:
            more = read(data, Wanted(asked, (), problem.outcome, "loss"), needs_outcome=False)
            table = table._replace(arguments={**table.arguments, **more.arguments})
    else:
        arguments = arguments_of(model)
        names = tuple(dict.fromkeys((*arguments.names, *beside)))
        required = [n for n in arguments.required if needs_outcome or n != problem.action]
        wanted = Wanted(names, tuple(required), problem.observations, name_of(model))
        fitted = None if fit is None else fit.table
        before = None if cases is None else Coding() if fitted is None else fitted.coding
        counted = () if cases is None or before is None else _counted(cases, before)
        table = read(data, wanted, before, counted=counted, needs_outcome=needs_outcome)
    checked = problem.check_data(_with_actions(problem, table), needs_outcome=needs_outcome)
    table = table._replace(arguments={})
    return CheckedData(checked, table, table if fit is None else fit.table)


def _with_actions(problem: Problem, table: Read) -> dict[str, np.ndarray]:
    """Return the arguments, with labels of actions as their numbers in the space."""
    action = problem.action or ""
    words = table.coding.categories.get(action)
    if words is None or action not in table.arguments:
        return table.arguments
    labels = np.asarray(words, object)[table.arguments[action]]
    numbers = problem.space.from_labels(f"`data[{action!r}]`", labels).astype(int)
    return {**table.arguments, action: numbers}


def as_column(decisions: "xr.DataArray", table: Read | None) -> "xr.DataArray":
    """Return decisions as a column of the table that went in, where one did."""
    if table is None or decisions.shape != (len(table.rows),):
        return decisions
    column: Any = table.rows.series(decisions.values, str(decisions.name))
    handed: xr.DataArray = column
    return handed


def _counted(cases: ModelTrace, coding: Coding) -> frozenset[str]:
    """Return the categories whose members the model counts.

    The model looks at their codes while it is traced, and has a plate for the members.
    """
    looked_at = {n for n, value in cases.constants.items() if isinstance(value, np.ndarray)}
    return frozenset(name for name in _plates(cases, coding) if name in looked_at)


def _plates(cases: ModelTrace, coding: Coding) -> dict[str, str]:
    """Return category -> the plate of its members.

    That is the plate of the same name, or the only one of the same size.
    """
    sizes = {name: len(words) for name, words in coding.categories.items()}
    plates = {name: name for name, size in sizes.items() if cases.plates.get(name) == size}
    others = [p for p in cases.plates if p not in plates and p not in cases.instances.dims]
    for name, size in sizes.items():
        fitting = [plate for plate in others if cases.plates[plate] == size]
        if name not in plates and len(fitting) == 1 and list(sizes.values()).count(size) == 1:
            plates[name] = fitting[0]
    return plates
