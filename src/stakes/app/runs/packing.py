"""The data of a run as plain arrays: what the fit saw, whatever becomes of the table's file."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from stakes.app.spec import Table, Tables
from stakes.errors import StorageError
from stakes.tables import Dialect

FIT, HELD_OUT, GROUPS, WRITTEN = "fit", "held_out", "groups", "written"


def packed(tables: Tables) -> dict[str, np.ndarray]:
    words = tables.fit.vocabulary.items()
    written = asdict(replace(tables.dialect, compression=None)).items()
    return {
        **_packed(FIT, tables.fit),
        **(_packed(HELD_OUT, tables.held_out) if tables.held_out is not None else {}),
        **{f"vocabulary/{name}": np.array(categories) for name, categories in words},
        **{f"{WRITTEN}/{name}": np.array(how) for name, how in written if how is not None},
    }


def _packed(part: str, table: Table) -> dict[str, np.ndarray]:
    given = {name: value for name, value in table.arguments.items() if value is not None}
    arrays = {f"{part}/{name}": np.asarray(value) for name, value in given.items()}
    arrays |= {f"{GROUPS}_{part}/{name}": values for name, values in table.groups.items()}
    arrays |= {f"beside/{part}/{name}": values for name, values in table.beside.items()}
    return arrays if table.labels is None else {**arrays, f"labels/{part}": table.labels}


def unpacked(arrays: Mapping[str, np.ndarray]) -> Tables:
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        part, _, rest = name.partition("/")
        parts.setdefault(part, {})[rest] = array
    groups = {part: parts.pop(f"{GROUPS}_{part}", {}) for part in (FIT, HELD_OUT)}
    others = {HELD_OUT, "labels", "vocabulary", "beside", WRITTEN}
    if FIT not in parts or set(parts) - {FIT, *others}:
        raise StorageError("data.npz does not hold the data of a run.")
    vocabulary = {n: [str(w) for w in words] for n, words in parts.get("vocabulary", {}).items()}
    labels, beside = parts.get("labels", {}), parts.get("beside", {})

    def table(part: str) -> Table:
        own = {n.removeprefix(f"{part}/"): a for n, a in beside.items() if n.startswith(f"{part}/")}
        named = labels.get(part)
        if named is not None and named.ndim == 1:  # as runs had it that could have one label only
            named = named[:, None]
        return Table(_arguments(parts[part]), named, vocabulary, groups[part], own)

    dialect = Dialect(**{name: str(how) for name, how in parts.get(WRITTEN, {}).items()})
    held_out = table(HELD_OUT) if HELD_OUT in parts else None
    return Tables(table(FIT), held_out, dialect=dialect)


def _arguments(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Single numbers and strings as such: a model may use them as sizes."""
    return {name: a if a.ndim else a.item() for name, a in arrays.items()}
