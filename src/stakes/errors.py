"""Errors and warnings; a message says where, what the rule is, what was given, and what to do."""

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence


class StakesError(Exception):
    """Base of everything that `stakes` raises on purpose.

    Examples:
            >>> import stakes
            >>> issubclass(stakes.InputError, stakes.StakesError)
            True
    """


class ProcessLostError(StakesError):
    """Processes that work together were lost, again and again."""


class InputError(StakesError, ValueError):
    """A problem, its data or a setting is not valid; found, where possible, before any fit.

    Examples:
            >>> import stakes
            >>> try:
            ...     stakes.Tilted(1.5)
            ... except stakes.InputError as error:
            ...     print(str(error).partition(";")[0])
            `Tilted(q=...)` must be a number strictly between 0 and 1
    """


class NoScaleError(InputError):
    """The losses under plain VI give no scale M."""


class OutOfRangeError(InputError):
    """A whole number in the data points beyond the array that the model indexes with it."""

    def __init__(self, message: str, *, argument: str, value: int, row: int, size: int) -> None:
        super().__init__(message)
        self.argument, self.value, self.row, self.size = argument, value, row, size


class NumericalError(StakesError, ArithmeticError):
    """A quantity that has to be positive or finite is not.

    Examples:
            >>> import stakes
            >>> issubclass(stakes.NumericalError, ArithmeticError)
            True
    """


class StorageError(StakesError, OSError):
    """A file of a run cannot be read or written, or has been damaged or changed."""


class Interrupted(StakesError):  # noqa: N818 (nobody's mistake)
    """A signal ended the work; what had been done is saved."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class NoClosedForm(  # noqa: N818 (nobody's mistake)
    StakesError, NotImplementedError
):
    """There is no closed form for this loss and this outcome distribution.

    Raise it in a loss or a statistic of your own where there is no formula: the next best way is
    taken then.

    Examples:
        >>> import numpyro.distributions as dist, stakes
        >>> stakes.ClosedForm().expected(None, dist.VonMises(0.0, 1.0), stakes.Tilted(0.2), 0.0)
        Traceback (most recent call last):
        ...
        stakes.errors.NoClosedForm: No closed form is known for the expected excess of VonMises.
    """


class StakesWarning(UserWarning):
    """The result is valid, but probably not what was meant.

    Examples:
            >>> import warnings, stakes
            >>> with warnings.catch_warnings(record=True) as caught:
            ...     warnings.simplefilter("always")
            ...     utility = stakes.Utility(lambda outcome, decision: 2.0, infimum=1.0)
            >>> caught[0].category.__name__
            'StakesWarning'
    """


def some(names: Iterable[object]) -> str:
    """'a', 'b', 'c': a readable list of names for a message."""
    return listed(map(repr, names)) or "none"


def listed(parts: Iterable[object], limit: int = 8) -> str:
    """The first of these, as they are."""
    every = [str(part) for part in parts]
    return ", ".join(every[:limit]) + (", ..." if len(every) > limit else "")


def name_rows(rows: Sequence[object]) -> str:
    """Name the first few rows, and how many more there are.

    Examples:
        >>> name_rows([12]), name_rows([12, 40]), name_rows(range(8))
        ('row 12', 'rows 12 and 40', 'rows 0, 1, 2, 3, 4 and 3 more')
    """
    shown, more = [str(row) for row in rows[:5]], len(rows) - 5
    if more > 0:
        return f"rows {', '.join(shown)} and {more} more"
    return f"rows {', '.join(shown[:-1])} and {shown[-1]}" if len(rows) > 1 else f"row {shown[0]}"


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """ " Did you mean 'x'? Available: ..." for a name that is not among them."""
    options = list(dict.fromkeys(allowed))
    lower = {option.lower(): option for option in options}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    meant = f" Did you mean {lower[close[0]]!r}?" if close else ""
    listed = ", ".join(map(repr, options[:20])) + (", ..." if len(options) > 20 else "")
    return f"{meant} Available: {listed}." if options else f"{meant} Available: none."


def name_of(thing: object) -> str:
    """What a function or a value is called in a message."""
    return getattr(thing, "__name__", None) or repr(thing)


def check_shape(what: str, came: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """One value for each instance: another shape would broadcast, and count some of them twice."""
    if came != expected:
        raise InputError(
            f"{what} must have one value for each case, and so shape {expected}; it has shape "
            f"{came}."
        )


def warn(message: str) -> None:
    """Warn at the line of the user's program from which `stakes` was called."""
    frame, level = sys._getframe(1), 2
    while (
        frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "stakes"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, StakesWarning, stacklevel=level)
