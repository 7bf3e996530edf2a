"""The sections of a spec that say what decisions cost, and where they may lie."""

from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from stakes.app.spec.messages import FieldErrors
from stakes.app.spec.section import CODE, POSITIVE, Python, Section, check_either


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _cost(of: str) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        if not _is_number(value) or value <= 0:
            rule = f"the cost of {of}: a number above zero, or the name of an argument"
            raise FieldErrors(("", f"must be {rule}; got {value!r}"))
        return float(value)

    return checked


def _limit(value: Any) -> Any:
    if value is None or isinstance(value, str) or _is_number(value):
        return value
    raise FieldErrors(("", f"must be a number, or the name of an argument; got {value!r}"))


UNIT: Any = Field(None, max_length=12, description='what costs are counted in, such as "€"')
LOSSES = Literal[
    "squared",
    "absolute",
    "tilted",
    "newsvendor",
    "linex",
    "expectile",
    "huber",
    "zero-one",
    "interval-score",
    "table",
]
PARAMETERS = {
    "tilted": ("q", "under", "over"),
    "newsvendor": ("under", "over"),
    "linex": ("c",),
    "expectile": ("q",),
    "huber": ("delta",),
    "zero-one": ("width",),
    "interval-score": ("level",),
    "table": ("costs", "file", "bins"),
}
NEEDED = {
    "newsvendor": (("under", "the cost of one unit short"), ("over", "that of one too many")),
    "linex": (("c", "a number other than zero"),),
    "expectile": (("q", "a number strictly between 0 and 1"),),
    "huber": (("delta", "a number above zero"),),
    "interval-score": (("level", "a number strictly between 0 and 1"),),
}


class LossSection(Section):
    name: LOSSES | None = Field(None, description="the name of a loss")
    python: Python | None = Field(None, description=CODE)
    q: float | None = Field(None, gt=0, lt=1, description="a number strictly between 0 and 1")
    under: Annotated[Any, AfterValidator(_cost("one unit short"))] = None
    over: Annotated[Any, AfterValidator(_cost("one unit too many"))] = None
    c: float | None = Field(None, allow_inf_nan=False, description="a number other than zero")
    delta: float | None = Field(None, gt=0, allow_inf_nan=False, description=POSITIVE)
    width: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="a number of zero or more"
    )
    level: float | None = Field(None, gt=0, lt=1, description="a number strictly between 0 and 1")
    costs: dict[str, list[float | str]] | None = Field(
        None, description="a table from actions to a cost for each class"
    )
    file: str | None = Field(None, description="a .csv file, a row of costs for each action")
    bins: list[float] | None = Field(None, description="a list of increasing numbers")
    unit: str | None = UNIT

    @model_validator(mode="after")
    def _parameters(self) -> "LossSection":
        check_either(self, "name", "python")
        takes = PARAMETERS.get(self.name or "", ())
        every = dict.fromkeys(name for names in PARAMETERS.values() for name in names)
        found = [
            (name, f"does not belong to {self.name or self.python!r}; leave it out")
            for name in every
            if getattr(self, name) is not None and name not in takes
        ]
        found += [
            (name, f"is required for {self.name!r}: {what}")
            for name, what in NEEDED.get(self.name or "", ())
            if not getattr(self, name)
        ]
        if self.name == "table" and (self.costs is None) == (self.file is None):
            found.append(("costs", "give `costs`, or the `file` that has them instead"))
        given = tuple(n for n in ("q", "under", "over") if getattr(self, n) is not None)
        if self.name == "tilted" and given not in (("q",), ("under", "over")):
            found.append(("q", "give `q`, or both `under` and `over` instead of it"))
        if self.name == "tilted" and any(isinstance(getattr(self, n), str) for n in given):
            found.append(("name", "costs that differ by row belong to 'newsvendor'"))
        if found:
            raise FieldErrors(*found)
        return self


class UtilitySection(Section):
    python: Python = Field(description=CODE)
    infimum: float = Field(0.0, ge=0, allow_inf_nan=False, description="a number of zero or more")
    unit: str | None = UNIT


class SpaceSection(Section):
    """Where a decision may lie, or a part of it."""

    space: Literal["real", "interval", "whole", "actions"] | None = Field(
        None, description="the name of a space"
    )
    low: Annotated[Any, AfterValidator(_limit)] = None
    high: Annotated[Any, AfterValidator(_limit)] = None
    actions: list[str | float] | None = Field(None, min_length=1, description="a list of actions")

    @model_validator(mode="after")
    def _parameters(self) -> "SpaceSection":
        space = self.space or "real"
        limited = space in ("interval", "whole")
        found = [
            (name, f"belongs to the spaces 'interval' and 'whole', not to {space!r}")
            for name in ("low", "high")
            if getattr(self, name) is not None and not limited
        ]
        if (self.actions is None) == (space == "actions"):
            found.append(("actions", "belongs to the space 'actions', which needs it"))
        if found:
            raise FieldErrors(*found)
        return self


class DecisionSection(SpaceSection):
    argument: str | None = Field(
        None, description="the argument of the model that is decided about"
    )
    parts: dict[str, SpaceSection] | None = Field(
        None, min_length=2, description="a table from two names or more to spaces"
    )
    per: str | None = Field(None, description="a plate, an argument with groups of rows, or 'all'")

    @model_validator(mode="after")
    def _one_or_several(self) -> "DecisionSection":
        others = ("space", "argument", "per") if self.parts is not None else ()
        said = [name for name in others if getattr(self, name) is not None]
        if said:
            raise FieldErrors(
                *((name, "does not go with `parts`, which have their own") for name in said)
            )
        return self
