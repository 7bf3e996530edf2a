"""Tables of several Parquet files, as what is larger than memory comes."""

from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402


def write_parts(
    folder: Path, data: dict[str, np.ndarray], parts: int = 5, *, plain: bool = False
) -> Path:
    """Files of uneven sizes, each with row groups of its own size."""
    ends = np.cumsum(np.arange(1, parts + 1) ** 2)
    cuts = (len(data["x"]) * ends[:-1] // ends[-1]).tolist()
    for i, rows in enumerate(np.split(np.arange(len(data["x"])), cuts)):
        table = pa.table({name: values[rows] for name, values in data.items()})
        if i == 2 and not plain:  # the same words, kept in another way
            at = table.schema.get_field_index("shop")
            table = table.set_column(at, "shop", table["shop"].dictionary_encode())
        pq.write_table(table, folder / f"part-{i}.parquet", row_group_size=700 + 311 * i)
    return folder
