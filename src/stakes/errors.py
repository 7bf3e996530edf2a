"""Errors and warnings; each message says where, the rule, what came and the way out."""


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
    """This loss and this outcome distribution have no closed-form expectation."""


class StakesWarning(UserWarning):
    """The result is valid, but probably not what was meant."""


def some(names: object, limit: int = 8) -> str:
    """'a', 'b', 'c': a readable list of names for a message."""
    listed = [repr(name) for name in names]  # type: ignore[attr-defined]
    if not listed:
        return "none"
    return ", ".join(listed[:limit]) + (", ..." if len(listed) > limit else "")
