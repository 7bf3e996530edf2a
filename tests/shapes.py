"""Shapes of arrays, checked at each call: `make test-shapes`.

Types are left to mypy: protocols cannot be checked while a program runs.
"""

from collections.abc import Callable
from typing import Any, TypeVar, get_args

from beartype import beartype
from jaxtyping import AbstractArray

Function = TypeVar("Function", bound=Callable[..., Any])


def checked(function: Function) -> Function:
    """The function, which refuses arrays whose axes are not those of its signature."""
    named = function.__annotations__
    function.__annotations__ = {name: hint for name, hint in named.items() if names_axes(hint)}
    return beartype(function)


def names_axes(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(map(names_axes, get_args(hint)))
