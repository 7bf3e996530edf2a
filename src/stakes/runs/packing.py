"""The data of a run as plain arrays: what the fit saw, whatever becomes of its file."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stakes.errors import StorageError
from stakes.spec.table import Table

FIT, HELD_OUT = "fit", "held_out"


def packed(fit: Table, held_out: Table | None) -> dict[str, np.ndarray]:
    return {
        **_packed(FIT, fit),
        **(_packed(HELD_OUT, held_out) if held_out is not None else {}),
        **{f"vocabulary/{name}": np.array(words) for name, words in fit.vocabulary.items()},
    }


def _packed(part: str, table: Table) -> dict[str, np.ndarray]:
    given = {name: value for name, value in table.arguments.items() if value is not None}
    arrays = {f"{part}/{name}": np.asarray(value) for name, value in given.items()}
    return arrays if table.labels is None else {**arrays, f"labels/{part}": table.labels}


def unpacked(arrays: Mapping[str, np.ndarray]) -> tuple[Table, Table | None]:
    parts: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        part, _, rest = name.partition("/")
        parts.setdefault(part, {})[rest] = array
    if FIT not in parts or set(parts) - {FIT, HELD_OUT, "labels", "vocabulary"}:
        raise StorageError("data.npz does not hold the data of a run.")
    vocabulary = {n: [str(w) for w in words] for n, words in parts.get("vocabulary", {}).items()}
    labels = parts.get("labels", {})
    fit = Table(_arguments(parts[FIT]), labels.get(FIT), vocabulary)
    if HELD_OUT not in parts:
        return fit, None
    return fit, Table(_arguments(parts[HELD_OUT]), labels.get(HELD_OUT), vocabulary)


def _arguments(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Single numbers and strings as such: a model may use them as sizes."""
    return {name: a if a.ndim else a.item() for name, a in arrays.items()}
