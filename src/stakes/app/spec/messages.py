"""Mistakes in a spec, reported all at once.

Each names its field, the rule, the value given, and the remedy. Pydantic finds mistakes of form;
its messages are replaced by those that the schema's descriptions make.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, final, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stakes.errors import InputError, suggestion


class Mistake(NamedTuple):
    """A mistake in a spec.

    Attributes:
        path: of the field, such as `data.columns.x`; empty for the spec as a whole.
        message: the rule, the value given, and the remedy.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecError(InputError):
    """All that is wrong with a spec."""

    def __init__(self, where: str, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        count = len(self.mistakes)
        lines = "\n".join(f"  {mistake}" for mistake in self.mistakes)
        super().__init__(f"{where} has {count} mistake{'s' if count > 1 else ''}:\n{lines}")


class FieldErrors(ValueError):  # noqa: N818 (several)
    """Mistakes that concern several fields of a section: (field, message)."""

    def __init__(self, *mistakes: tuple[str, str]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(message for _, message in mistakes))


@final
@dataclass
class Collector:
    """Gathers mistakes, so that they can be reported together.

    Examples:
        >>> mistakes = Collector()
        >>> with mistakes.at("loss"):
        ...     raise InputError("must be the name of a loss.")
        >>> mistakes.raise_any("spec.toml")
        Traceback (most recent call last):
        ...
        stakes.app.spec.messages.SpecError: spec.toml has 1 mistake:
          loss: must be the name of a loss.
    """

    mistakes: list[Mistake] = field(default_factory=list)

    def add(self, path: str, message: str) -> None:
        """Note a mistake, unless it is noted already."""
        mistake = Mistake(path, message)
        if mistake not in self.mistakes:
            self.mistakes.append(mistake)

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """Note what is raised in the block as a mistake in this field."""
        try:
            yield
        except InputError as error:
            self.add(path, str(error))

    def raise_any(self, where: str) -> None:
        """Raise all mistakes, if there are any; `where` names the spec."""
        if self.mistakes:
            raise SpecError(where, self.mistakes)


def mistakes_of(error: ValidationError, schema: type[BaseModel]) -> Iterator[Mistake]:
    """The mistakes that pydantic has found, worded by the descriptions of the schema."""
    for mistake in error.errors():
        path = ".".join(str(part) for part in mistake["loc"])
        cause = mistake.get("ctx", {}).get("error")
        if isinstance(cause, FieldErrors):
            for name, message in cause.mistakes:
                yield Mistake(".".join(part for part in (path, name) if part), f"{message}.")
        else:
            yield Mistake(path, _message(mistake, schema))


def _message(mistake: ErrorDetails, schema: type[BaseModel]) -> str:
    """The message for a mistake: rule, value given, and a suggestion."""
    *parents, last = mistake["loc"] or ("",)
    section = _section(schema, parents)
    if mistake["type"] == "extra_forbidden":
        return f"unknown.{suggestion(str(last), section.model_fields if section else ())}"
    known = section.model_fields.get(str(last)) if section else None
    rule = (known.description if known else None) or "a name that is known here"
    if mistake["type"] == "missing":
        return f"is required: {rule}."
    if mistake["type"] == "literal_error":
        allowed = re.findall(r"'([^']*)'", mistake["ctx"]["expected"])
        return (
            f"must be {rule}; got {mistake['input']!r}.{suggestion(str(mistake['input']), allowed)}"
        )
    if known is None:  # an entry of a table or list
        rule = {"string_type": "a string"}.get(mistake["type"], mistake["msg"])
    return f"must be {rule}; got {_shown(mistake['input'])}."


def _section(schema: type[BaseModel], path: Iterable[object]) -> type[BaseModel] | None:
    """The section that a path leads to; None where it leads into a table or a list."""
    for part in path:
        known = schema.model_fields.get(str(part))
        if known is None:
            return None
        inner = [known.annotation, *get_args(known.annotation)]
        models = [t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)]
        if not models:
            return None
        schema = models[0]
    return schema


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
