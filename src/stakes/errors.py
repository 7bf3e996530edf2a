"""Errors and warnings; each message says where, the rule, what came and the way out."""

from collections.abc import Iterable


class StakesError(Exception):
    """Base of everything that `stakes` raises on purpose."""


class InputError(StakesError, ValueError):
    """A problem, its data or a setting does not fit; raised before anything is compiled."""


class NumericalError(StakesError, ArithmeticError):
    """A quantity that has to be positive or finite is not."""


class StorageError(StakesError, OSError):
    """A file of a run cannot be read, or is not what was written; or there is no room for it."""


class Interrupted(StakesError):  # noqa: N818 (not a mistake of anyone's)
    """A signal ended the work; what had been done is saved."""

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class NoClosedForm(  # noqa: N818 (not a mistake of anyone's)
    StakesError, NotImplementedError
):
    """This loss and this outcome distribution have no closed form.

    A loss or a statistic of your own raises it where it has no answer, and the next best way is
    taken.

    >>> import numpyro.distributions as dist, stakes
    >>> stakes.ClosedForm().expected(None, dist.Gumbel(0.0, 1.0), stakes.Tilted(0.2), 0.0)
    Traceback (most recent call last):
    ...
    stakes.errors.NoClosedForm: No closed form is known for the expected excess of Gumbel.
    """


class StakesWarning(UserWarning):
    """The result is valid, but probably not what was meant."""


def some(names: Iterable[object], limit: int = 8) -> str:
    """'a', 'b', 'c': a readable list of names for a message."""
    listed = [repr(name) for name in names]
    if not listed:
        return "none"
    return ", ".join(listed[:limit]) + (", ..." if len(listed) > limit else "")


def name_of(thing: object) -> str:
    """What a function or a value is called in a message."""
    return getattr(thing, "__name__", None) or repr(thing)
