"""Tables of other libraries: how to tell one, read one, and hand a column back."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from stakes.errors import InputError
from stakes.host.packages import how_to_install

if TYPE_CHECKING:
    import pandas as pd

SIGNS = ("__narwhals_dataframe__", "__dataframe__", "__arrow_c_stream__", "__narwhals_lazyframe__")
"""What the tables of other libraries have."""


def is_table(data: Any) -> bool:
    """Whether these are columns with names: a DataFrame of pandas, Polars, PyArrow or the like."""
    if isinstance(data, type):
        return False
    return any(hasattr(data, sign) for sign in SIGNS) or _is_lazy(data)


def _is_lazy(data: Any) -> bool:
    return type(data).__name__ == "LazyFrame" and hasattr(data, "collect")


@final
@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table: what they are called, and a column for them as that table has it."""

    index: "pd.Index[Any]"
    like: Any = None
    """A table of narwhals, where it was not one of pandas."""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def labels(self) -> list[Hashable] | None:
        """Of the rows; None where they are just numbered, which says nothing of who they are."""
        import pandas as pd

        index = self.index
        # pandas makes a range of any evenly spaced numbers, such as the ids 10, 20, 30.
        if isinstance(index, pd.RangeIndex) and index.step == 1 and index.name is None:
            return None
        return index.tolist()

    def named(self, at: Any) -> list[str]:
        """What these rows are called."""
        return [repr(label) for label in self.index[at].tolist()]

    def series(self, values: np.ndarray, name: str) -> Any:
        """A column with a value for each row, of the same kind as the table."""
        if self.like is None:
            import pandas as pd

            return pd.Series(values, index=self.index, name=name)
        import narwhals as nw

        plain = np.asarray(values).tolist()
        made = nw.new_series(name, plain, backend=nw.get_native_namespace(self.like))
        return made.to_native()


def columns_in(table: Any) -> list[str]:
    """The names of all columns."""
    return [str(name) for name in getattr(_opened(table), "columns", ())]


def as_pandas(table: Any, names: list[str]) -> tuple["pd.DataFrame", TableRows]:
    """Some columns of a table, and its rows."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        twice = [name for name in names if list(table.columns).count(name) > 1]
        if twice:
            raise InputError(f"The table has the column {twice[0]!r} more than once.")
        return table[names], TableRows(table.index)
    opened = _opened(table)
    try:
        found = opened.select(names).to_pandas() if names else pd.DataFrame(index=range(len(table)))
    except ModuleNotFoundError as error:
        raise InputError(
            f"Reading a table of {type(table).__module__.split('.')[0]} needs {error.name}: "
            f"pip install {error.name}."
        ) from None
    return found.reset_index(drop=True), TableRows(pd.RangeIndex(len(found)), opened)


def _opened(table: Any) -> Any:
    """As narwhals sees it; one of pandas as it is."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    try:
        import narwhals as nw
    except ModuleNotFoundError:
        raise InputError(
            f"`data` is a {type(table).__name__}, for which narwhals is needed: "
            f"{how_to_install('tables')}; or give a DataFrame of pandas."
        ) from None
    if _is_lazy(table) or hasattr(table, "__narwhals_lazyframe__"):
        raise InputError("`data` is a table that is not computed yet; give `table.collect()`.")
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        raise InputError(
            f"`data` is a {type(table).__name__}, which cannot be read as a table; give a "
            f"DataFrame of pandas or a mapping from the model's arguments to arrays."
        ) from None
