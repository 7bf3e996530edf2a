"""Tables for the fit and for judging it, as a spec's [data] section describes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from stakes.app.spec.messages import Collector
from stakes.app.spec.schema import ChooseSection, DataSection, HeldOutSection
from stakes.app.spec.table import Table, categories_in, check_columns, chunks, encoded
from stakes.errors import InputError, suggestion

Columns = dict[str, np.ndarray]


@final
@dataclass(frozen=True, eq=False)
class Tables:
    """The data of a job."""

    fit: Table
    held_out: Table | None
    files: tuple[Path, ...] = ()
    """The files that they were read from."""

    @property
    def both(self) -> tuple[Table, ...]:
        return (self.fit,) if self.held_out is None else (self.fit, self.held_out)


def wanted(data: DataSection, outcome: str) -> dict[str, str]:
    """The model's arguments and their columns, that of the outcome last."""
    others = {name: column for name, column in data.columns.items() if name != outcome}
    return {**others, outcome: data.outcome or data.columns.get(outcome, outcome)}


def read_tables(
    data: DataSection,
    choose: ChooseSection | None,
    outcome: str,
    folder: Path,
    found: Collector,
    *,
    coded: bool = True,
) -> Tables | None:
    """Both tables; None with mistakes noted. Where not `coded`, words are kept as they are."""
    before = len(found.mistakes)
    beside = _beside(choose)
    fields = _fields(data, outcome) | {f"choose.{name}": col for name, col in beside.items()}
    paths = [(folder / data.file).resolve()]
    check_columns("data.file", paths[0], fields, found)
    if data.held_out is not None and data.held_out.file is not None:
        paths.append((folder / data.held_out.file).resolve())
        check_columns("data.held_out.file", paths[1], fields, found)
    if len(found.mistakes) > before:
        return None
    with found.at("data"):
        columns = list(dict.fromkeys(fields.values()))
        text = [*data.categories, *([data.label] if data.label else [])]
        parts = [next(chunks(path, columns, text, None)) for path in paths]
        return _tables(data, beside, outcome, parts, tuple(paths), found, coded=coded)
    return None


def _beside(choose: ChooseSection | None) -> dict[str, str]:
    """The columns that only the choice among ways needs."""
    if choose is None or choose.skip:
        return {}
    named = {"by": choose.by, "today": choose.today}
    return {name: column for name, column in named.items() if column is not None}


def _fields(data: DataSection, outcome: str) -> dict[str, str]:
    """The field of the spec that names a column -> the column."""
    fields = {f"data.columns.{name}": column for name, column in wanted(data, outcome).items()}
    fields["data.outcome"] = fields.pop(f"data.columns.{outcome}")
    fields |= {f"data.counts.{name}": column for name, column in data.counts.items()}
    fields |= {f"data.categories.{i}": column for i, column in enumerate(data.categories)}
    fields |= {f"data.by.{i}": column for i, column in enumerate(data.by)}
    return fields | ({"data.label": data.label} if data.label else {})


def _tables(
    data: DataSection,
    beside: dict[str, str],
    outcome: str,
    parts: list[Columns],
    paths: tuple[Path, ...],
    found: Collector,
    *,
    coded: bool,
) -> Tables | None:
    columns = dict.fromkeys([*wanted(data, outcome).values(), *data.counts.values()])
    vocabulary: dict[str, list[str]] = {}
    for name in columns if coded else ():
        categories = categories_in([p[name] for p in parts], forced=name in data.categories)
        if categories is not None:
            vocabulary[name] = categories
    column = wanted(data, outcome)[outcome]
    if column in vocabulary and column not in data.categories:
        found.add(
            "data.outcome",
            f"column {column!r} holds words. List it in `data.categories` to code them as 0, 1, 2, "
            f"...",
        )
    if column in data.categories and all(_holds_numbers(part[column]) for part in parts):
        found.add(
            "data.categories",
            f"column {column!r} has the outcomes, and they are numbers: as categories they would "
            f"be renumbered as 0, 1, 2, ... Leave it out.",
        )
    for argument, column in data.counts.items():
        if column not in vocabulary:
            found.add(
                f"data.counts.{argument}",
                f"column {column!r} has no categories.{suggestion(column, vocabulary)} List it in "
                f"`data.categories` to code its values.",
            )
    tables = [_table(data, outcome, part, vocabulary, found, coded=coded) for part in parts]
    for table, part in zip(tables, parts, strict=True):
        table.beside.update(_read_beside(beside, part, found))
    if found.mistakes:
        return None
    fit, held_out = tables[0], tables[1] if len(tables) > 1 else None
    if data.held_out is not None and data.held_out.fraction is not None:
        fit, held_out = _split(fit, data.held_out, len(parts[0][wanted(data, outcome)[outcome]]))
    return Tables(fit, held_out, paths)


def _read_beside(beside: dict[str, str], columns: Columns, found: Collector) -> Columns:
    """Groups as whole numbers, decisions as numbers."""
    read: Columns = {}
    for name, column in beside.items():
        with found.at(f"choose.{name}"):
            values, words = columns[column], {}
            if name == "by":
                words = {column: categories_in([values], forced=True) or []}
            read[name] = encoded(column, values, words)
    return read


def _holds_numbers(values: np.ndarray) -> bool:
    """Whether all are numbers, even if they were read as text."""
    try:
        np.asarray(values[values != ""], float)
    except ValueError:
        return False
    return True


def _table(
    data: DataSection,
    outcome: str,
    columns: Columns,
    vocabulary: dict[str, list[str]],
    found: Collector,
    *,
    coded: bool,
) -> Table:
    arguments: dict[str, object] = {}
    for argument, column in wanted(data, outcome).items():
        field = "data.outcome" if argument == outcome else f"data.columns.{argument}"
        with found.at(field):
            if columns[column].ndim and len(columns[column]) == 0:
                raise InputError("the table has no rows.")
            values = columns[column]
            arguments[argument] = encoded(column, values, vocabulary) if coded else values
    arguments |= {name: len(vocabulary.get(col, ())) for name, col in data.counts.items()}
    labels = columns[data.label].astype(str) if data.label else None
    groups = {column: columns[column].astype(str) for column in data.by}
    _check_together(data, groups, columns[wanted(data, outcome)[outcome]].shape, found)
    return Table({**arguments, **data.constants}, labels, vocabulary, groups)


def _check_together(
    data: DataSection, groups: Columns, shape: tuple[int, ...], found: Collector
) -> None:
    """Arrays of an .npz file may have any shape."""
    for column, values in groups.items():
        if values.shape != shape and not (values.ndim == 1 and len(values) in shape):
            found.add(
                "data.by",
                f"{column!r} has shape {values.shape}, where the outcomes have shape {shape}. Give "
                f"a value for each outcome, or along one axis of them.",
            )
    if data.ordered and len(shape) != 1:
        found.add("data.ordered", f"outcomes of shape {shape} are not in one row; leave it out.")


def _split(whole: Table, how: HeldOutSection, rows: int) -> tuple[Table, Table]:
    assert how.fraction is not None
    count = round(how.fraction * rows)
    if not 0 < count < rows:
        raise InputError(
            f"`held_out.fraction = {how.fraction}` of {rows} rows leaves no rows on one side."
        )
    order = np.arange(rows)
    if how.pick == "random":
        order = np.random.default_rng(how.seed).permutation(rows)
    return (
        whole.rows(np.sort(order[: rows - count]), rows),
        whole.rows(np.sort(order[rows - count :]), rows),
    )
