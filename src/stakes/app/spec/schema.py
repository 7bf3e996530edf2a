"""The sections of a spec. Each description of a field completes "must be ..." in a message."""

import codecs
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from stakes.app.spec.costs import DecisionSection, LossSection, UtilitySection
from stakes.app.spec.messages import FieldErrors
from stakes.app.spec.section import CODE, COUNT, POSITIVE, Python, Section, check_either


def _as_table(value: Any) -> Any:
    """A list of columns stands for arguments of the same names."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    return value


def _as_list(value: Any) -> Any:
    """One name stands for a list of it."""
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_as_list)]
Columns = Annotated[dict[str, str], BeforeValidator(_as_table)]


class ModelSection(Section):
    python: Python | None = Field(None, description=CODE)
    example: str | None = Field(None, description="the name of a built-in example")
    formula: str | None = Field(None, description="a formula, such as 'sold ~ sun + (1 | store)'")
    family: str | None = Field(None, description="the family of the outcomes of a formula")
    link: str | None = Field(None, description="the link of a formula's family")
    outcome: str | None = Field(None, description="the name of the sample site to decide about")
    latent: bool = Field(False, description="true where the outcome is never observed")

    @model_validator(mode="after")
    def _one_source(self) -> "ModelSection":
        if self.formula is None:
            check_either(self, "python", "example")
            said = [name for name in ("family", "link") if getattr(self, name) is not None]
            if said:
                raise FieldErrors(*((name, "belongs to `formula`; leave it out") for name in said))
        elif self.python is not None or self.example is not None:
            raise FieldErrors(("formula", "does not go with `python` or `example`; leave one out"))
        elif self.outcome is not None:
            raise FieldErrors(("outcome", "leave it out: the formula begins with it"))
        if self.python is not None and self.outcome is None:
            raise FieldErrors(
                ("outcome", "is required: the name of the sample site to decide about")
            )
        if self.latent and self.python is None:
            raise FieldErrors(("latent", "belongs to `python`; leave it out"))
        if self.example is not None and self.outcome is not None:
            raise FieldErrors(("outcome", "leave it out: the example has its own"))
        return self


class HeldOutSection(Section):
    file: str | None = Field(None, description="a file with the same columns")
    fraction: float | None = Field(
        None, gt=0, lt=1, description="a number strictly between 0 and 1"
    )
    pick: Literal["random", "last"] = Field("random", description="'random' or 'last'")
    seed: int = Field(0, ge=0, description="a whole number of zero or more")
    refit: bool = Field(True, description="true or false")

    @model_validator(mode="after")
    def _one_way(self) -> "HeldOutSection":
        check_either(self, "file", "fraction")
        return self


class DataSection(Section):
    file: str = Field(description="a .csv, .parquet or .npz file")
    separator: str | None = Field(
        None, min_length=1, max_length=1, description="the sign between values, such as ';'"
    )
    decimal: Literal[".", ","] | None = Field(None, description="the decimal sign, '.' or ','")
    encoding: str | None = Field(None, description="an encoding, such as 'utf-8' or 'cp1252'")
    missing: Literal["refuse", "drop"] = Field("refuse", description="'refuse' or 'drop'")
    replace: dict[str, dict[str, str]] = Field(
        {}, description="a table from columns to words and what they stand for"
    )
    dates: dict[str, str] = Field(
        {}, description="a table from columns to the way dates are written, such as '%d.%m.%Y'"
    )
    columns: Columns = Field(
        {}, description="a list of columns, or a table from the model's arguments to columns"
    )
    outcome: str | None = Field(None, description="the name of the column with the outcomes")
    label: Names = Field([], description="the name of the column that labels the rows, or several")
    categories: list[str] = Field([], description="a list of columns to be coded as 0, 1, 2, ...")
    counts: dict[str, str] = Field(
        {}, description="a table from the model's arguments to columns with categories"
    )
    constants: dict[str, Any] = Field(
        {}, description="a table from the model's arguments to numbers or strings"
    )
    by: Names = Field(
        [],
        max_length=2,
        description="a column, or two, whose equal values say what belongs together",
    )
    ordered: bool | str = Field(
        False, description="true, false, or the column to put the rows in order by"
    )
    held_out: HeldOutSection | None = Field(None, description="a table with `fraction` or `file`")

    @model_validator(mode="after")
    def _consistent(self) -> "DataSection":
        found = [
            (f"constants.{name}", f"must be a number or a string; got {value!r}")
            for name, value in self.constants.items()
            if not isinstance(value, bool | int | float | str)
        ]
        seen: dict[str, str] = {}
        for part in ("columns", "counts", "constants"):
            for name in getattr(self, part):
                if name in seen:
                    found.append((f"{part}.{name}", f"is given in `{seen[name]}` already"))
                seen[name] = part
        if self.encoding is not None and not _is_encoding(self.encoding):
            found.append(("encoding", f"there is no encoding {self.encoding!r}"))
        if self.by and self.ordered:
            found.append(("ordered", "rows belong together `by` columns or in order, not both"))
        if found:
            raise FieldErrors(*found)
        return self


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


class GuideSection(Section):
    name: (
        Literal[
            "AutoNormal",
            "AutoDiagonalNormal",
            "AutoMultivariateNormal",
            "AutoLowRankMultivariateNormal",
            "AutoIAFNormal",
            "AutoBNAFNormal",
        ]
        | None
    ) = Field(None, description="the name of an autoguide")
    python: Python | None = Field(None, description=CODE)

    @model_validator(mode="after")
    def _one_source(self) -> "GuideSection":
        check_either(self, "name", "python")
        return self


class TransformSection(Section):
    name: Literal["linearized", "exponential"] = Field(
        "linearized", description="the name of a transform"
    )
    quantile: float = Field(0.9, gt=0, le=1, description="a number above 0 and up to 1")
    scale: float | None = Field(None, gt=0, allow_inf_nan=False, description=POSITIVE)
    regret: bool = Field(True, description="true or false")


class MethodSection(Section):
    name: Literal["joint", "em"] | None = Field(None, description="the name of a method")
    m_step: Literal["bayes", "numerical"] | None = Field(None, description="the name of an M-step")
    draws: int | None = Field(None, gt=0, description=COUNT)
    every: int | None = Field(None, gt=0, description=COUNT)
    estimator: Literal["nested", "jensen", "taylor"] | None = Field(
        None, description="the name of an estimator"
    )

    @model_validator(mode="after")
    def _em_only(self) -> "MethodSection":
        found = [
            (name, "belongs to the method 'em'; leave it out")
            for name in ("m_step", "draws", "every")
            if self.name != "em" and getattr(self, name) is not None
        ]
        if found:
            raise FieldErrors(*found)
        return self


class ExpectationSection(Section):
    name: Literal["closed-form", "enumeration", "quadrature", "monte-carlo"] = Field(
        description="the name of an expectation"
    )
    points: int | None = Field(None, gt=0, description=COUNT)
    draws: int | None = Field(None, gt=0, description=COUNT)

    @model_validator(mode="after")
    def _parameters(self) -> "ExpectationSection":
        takes = {"enumeration": "points", "quadrature": "points", "monte-carlo": "draws"}
        found = [
            (name, f"does not belong to {self.name!r}; leave it out")
            for name in ("points", "draws")
            if getattr(self, name) is not None and takes.get(self.name) != name
        ]
        if found:
            raise FieldErrors(*found)
        return self


class FitSection(Section):
    steps: int = Field(30_000, gt=0, description=COUNT)
    draws: int | None = Field(None, gt=0, description=COUNT)
    learning_rate: float | None = Field(None, gt=0, allow_inf_nan=False, description=POSITIVE)
    """That of Adam, which then makes the fit alone."""
    warm_start: bool = Field(True, description="true or false")
    checkpoint_seconds: float = Field(
        60.0, ge=0, allow_inf_nan=False, description="a number of zero or more"
    )


WAYS = Literal["plain", "calibrated", "shift", "level", "monotone", "network", "nuts", "same"]


def _as_folds(value: Any) -> Any:
    """A number stands for that many random folds."""
    return {"random": value} if isinstance(value, int) else value


class FoldsSection(Section):
    random: int | None = Field(None, ge=2, description="a whole number of two or more")
    forward: int | None = Field(None, gt=0, description=COUNT)
    start: float | None = Field(None, gt=0, lt=1, description="a number strictly between 0 and 1")

    @model_validator(mode="after")
    def _one_kind(self) -> "FoldsSection":
        check_either(self, "random", "forward")
        if self.start is not None and self.forward is None:
            raise FieldErrors(("start", "belongs to `forward`; leave it out"))
        return self


class ChooseSection(Section):
    skip: bool = Field(False, description="true or false")
    ways: list[WAYS] | None = Field(None, min_length=1, description="a list of ways")
    strengths: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = Field(
        None, min_length=1, description="a list of numbers above zero"
    )
    folds: Annotated[FoldsSection, BeforeValidator(_as_folds)] = Field(
        FoldsSection.model_construct(random=5),
        description="a whole number of two or more, or a table with `forward`",
    )
    by: str | None = Field(None, description="the name of a column with groups of rows")
    today: str | None = Field(None, description="the name of a column with the decisions of today")

    @model_validator(mode="after")
    def _consistent(self) -> "ChooseSection":
        found = [
            (name, f"has {_twice(given)!r} more than once")
            for name in ("ways", "strengths")
            if _twice(given := getattr(self, name) or []) is not None
        ]
        if self.ways is not None and set(self.ways) <= {"same"}:
            found.append(("ways", "has nothing but what is there to compare with; add 'plain'"))
        if self.ways is not None and self.strengths and "calibrated" not in self.ways:
            found.append(("strengths", "belongs to the way 'calibrated'; leave it out"))
        if found:
            raise FieldErrors(*found)
        return self


def _twice(listed: list[Any]) -> Any:
    return next((each for each in listed if listed.count(each) > 1), None)


class Spec(Section):
    title: str | None = Field(None, description="a string")
    seed: int = Field(0, ge=0, lt=2**32, description="a whole number from 0 to 4294967295")
    model: ModelSection = Field(description="a table with `python` and `outcome`, or `example`")
    data: DataSection | None = Field(None, description="a table with `file` and `columns`")
    loss: LossSection | None = Field(None, description="a table with `name` or `python`")
    utility: UtilitySection | None = Field(None, description="a table with `python`")
    guide: GuideSection | None = Field(None, description="a table with `name` or `python`")
    decision: DecisionSection | None = Field(None, description="a table with `space`")
    transform: TransformSection | None = Field(None, description="a table")
    method: MethodSection = Field(MethodSection.model_construct(), description="a table")
    expectation: ExpectationSection | None = Field(None, description="a table with `name`")
    fit: FitSection = Field(FitSection.model_construct(), description="a table")
    choose: ChooseSection = Field(ChooseSection.model_construct(), description="a table")
