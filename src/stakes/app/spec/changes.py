"""Values to try in place of those of a spec: `loss.under=4`."""

import copy
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from stakes.errors import InputError


def with_values(raw: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The content of a spec with other values in it.

    Args:
        raw: as it was written.
        changes: such as `loss.under=4`: the path of a field, and its value as TOML has it; what is
            no TOML is taken as a string.

    Examples:
        >>> with_values({"loss": {"name": "tilted", "q": 0.5}}, ["loss.q=0.8", "title=Loaves"])
        {'loss': {'name': 'tilted', 'q': 0.8}, 'title': 'Loaves'}
        >>> with_values({}, ['data.replace.price."n/a"=""'])
        {'data': {'replace': {'price': {'n/a': ''}}}}
    """
    changed: dict[str, Any] = copy.deepcopy(dict(raw))
    for change in changes:
        _, sign, text = change.partition("=")
        names = path_of(change)
        if not sign or not all(names):
            raise InputError(
                f"`--set {change}` must be a field and its value, such as `loss.under=4`."
            )
        section = changed
        for name in names[:-1]:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise InputError(f"`--set {change}`: {name!r} has no fields.")
        section[names[-1]] = _value(text.strip())
    return changed


def path_of(change: str) -> list[str]:
    """The names on the way to the field that is changed, which TOML may have in quotes."""
    path = change.partition("=")[0]
    try:
        found: Any = tomllib.loads(f"{path} = 0")
    except tomllib.TOMLDecodeError:
        return [name.strip() for name in path.split(".")]
    names = []
    while isinstance(found, dict):
        [(name, found)] = found.items()
        names.append(name)
    return names


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
