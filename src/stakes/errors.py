"""Errors and warnings; each message says where, the rule, what came and the way out."""


class StakesError(Exception):
    """Base of everything that `stakes` raises on purpose."""


class InputError(StakesError, ValueError):
    """A problem, its data or a setting does not fit; raised before anything is compiled."""


class NumericalError(StakesError, ArithmeticError):
    """A quantity that has to be positive or finite is not."""


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
