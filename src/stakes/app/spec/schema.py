"""The sections and fields of a spec.

Each description of a field completes "must be ..." in a message.
"""

import codecs
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from stakes.app.spec.messages import FieldErrors

# A name in the user's own Python: a file and a name in it.
CODE = r"[^:]+\.py:[A-Za-z_][A-Za-z_0-9]*"
COUNT = "a whole number above zero"


class Section(BaseModel):
    """A section of a spec: no other fields, no conversions, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _one_of(section: Section, *names: str) -> str:
    """Check that exactly one of some fields is given.

    Returns:
        Its name.
    """
    given = [name for name in names if name in section.model_fields_set]
    if len(given) != 1:
        *others, last = (f"`{name}`" for name in names)
        raise FieldErrors(("", f"needs either {', '.join(others)} or {last}, and not both"))
    return given[0]


def _as_table(value: object) -> object:
    """A list of columns stands for arguments of the same names."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    return value


def _as_list(value: object) -> object:
    """One name stands for a list of it."""
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_as_list)]
Columns = Annotated[dict[str, str], BeforeValidator(_as_table)]


# Where a model comes from -> the fields that go with it.
MODELS = {"python": ("outcome", "latent"), "example": (), "formula": ("family", "link")}


class ModelSection(Section):
    """[model]: where the model comes from.

    It is the user's Python, a built-in example or a formula, and has the fields that go with it.
    """

    python: str | None = Field(
        None,
        pattern=f"^{CODE}$",
        description="a Python file and a name in it, such as 'model.py:model'",
    )
    example: str | None = Field(None, description="the name of a built-in example")
    formula: str | None = Field(None, description="a formula, such as 'sold ~ sun + (1 | store)'")
    family: str | None = Field(None, description="the family of the outcomes of a formula")
    link: str | None = Field(None, description="the link of a formula's family")
    outcome: str | None = Field(None, description="the name of the sample site to decide about")
    latent: bool = Field(False, description="true where the outcome is never observed")

    @model_validator(mode="after")
    def _one_source(self) -> "ModelSection":
        """Check that there is one source, with its own fields alone."""
        source = _one_of(self, *MODELS)
        others = [name for name in self.model_fields_set if name not in (source, *MODELS[source])]
        wrong = [(name, f"does not go with `{source}`; leave it out") for name in sorted(others)]
        if source == "python" and self.outcome is None:
            wrong.append(("outcome", "is required: the name of the sample site to decide about"))
        if wrong:
            raise FieldErrors(*wrong)
        return self


class HeldOutSection(Section):
    """[data.held_out]: the rows that judge the fits.

    They are in a `file` of their own, or a `fraction` of the rows: random ones, or the last ones.
    Unless `refit` is false, the fits are made again with them before new rows are decided about.
    """

    file: str | None = Field(None, description="a file with the same columns")
    fraction: float | None = Field(
        None, gt=0, lt=1, description="a number strictly between 0 and 1"
    )
    pick: Literal["random", "last"] = Field("random", description="'random' or 'last'")
    seed: int = Field(0, ge=0, description="a whole number of zero or more")
    refit: bool = Field(True, description="true or false")

    @model_validator(mode="after")
    def _one_way(self) -> "HeldOutSection":
        """Check that the rows held out are described in one way."""
        _one_of(self, "file", "fraction")
        return self


class DataSection(Section):
    """[data]: the table, and what its columns mean.

    How it is written: `file`, `separator`, `decimal`, `encoding`. What its values mean: `missing`,
    `replace`, `dates`, `categories`. What the model gets: `columns`, `outcome`, `counts`,
    `constants`. What rows are: `label` identifies them, `by` says which belong together, `ordered`
    that they are in order of time, and `held_out` which ones judge the fits.
    """

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

    @property
    def order(self) -> str | None:
        """The column that rows are put in order by; None where they are taken as they are."""
        return self.ordered if isinstance(self.ordered, str) else None

    @model_validator(mode="after")
    def _consistent(self) -> "DataSection":
        """Check that each argument is given once, and that fields go together."""
        wrong = [
            (f"constants.{name}", f"must be a number or a string; got {value!r}")
            for name, value in self.constants.items()
            if not isinstance(value, bool | int | float | str)
        ]
        seen: dict[str, str] = {}
        for part in ("columns", "counts", "constants"):
            for name in getattr(self, part):
                if name in seen:
                    wrong.append((f"{part}.{name}", f"is given in `{seen[name]}` already"))
                seen[name] = part
        if self.encoding is not None and not _is_encoding(self.encoding):
            wrong.append(("encoding", f"there is no encoding {self.encoding!r}"))
        if self.by and self.ordered:
            wrong.append(("ordered", "rows are grouped `by` columns or in order, not both"))
        if wrong:
            raise FieldErrors(*wrong)
        return self


def _is_encoding(name: str) -> bool:
    """Whether Python knows an encoding of this name."""
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


class FitSection(Section):
    """[fit]: how long fits take, and how often they are saved.

    `steps` limits the steps of each fit, `draws` is the number of draws of the latents in each
    step, and `warm_start` says whether the calibrated fit starts where plain VI ended.

    Attributes:
        learning_rate: the learning rate of Adam; if it is given, Adam alone makes the fit.
        checkpoint_seconds: the time between two checkpoints; 0 for one after each chunk of steps.
    """

    steps: int = Field(30_000, gt=0, description=COUNT)
    draws: int | None = Field(None, gt=0, description=COUNT)
    learning_rate: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="a number above zero"
    )
    warm_start: bool = Field(True, description="true or false")
    checkpoint_seconds: float = Field(
        60.0, ge=0, allow_inf_nan=False, description="a number of zero or more"
    )


class ChooseSection(Section):
    """[choose]: the strategies to choose among, and the folds that judge them.

    `today` names the column with today's decisions, one of the strategies to compare with.
    """

    skip: bool = Field(False, description="true or false")
    ways: list[Any] | None = Field(None, min_length=1, description="a list of strategies")
    folds: Any = Field(
        5, description="a whole number of two or more, or `forward` with its arguments"
    )
    by: str | None = Field(None, description="the name of a column with groups of rows")
    today: str | None = Field(None, description="the name of a column with today's decisions")


class NamedValue(Section):
    """A section that names a value by its class, with a table of its arguments.

    A name alone stands for the value without arguments.
    """

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, given: object) -> object:
        """Make a table of a name."""
        return {given: {}} if isinstance(given, str) else given

    @property
    def named(self) -> dict[str, object]:
        """Name -> arguments: all that is not a field of the section itself."""
        return self.model_extra or {}


class CostSection(NamedValue):
    """[loss] or [utility]: what decisions cost or are worth, and the unit of that."""

    unit: str | None = Field(None, max_length=12, description='the unit of costs, such as "€"')


class DecisionSection(NamedValue):
    """[decision]: the decision space.

    `argument` names the model's argument that is decided about, `per` what shares one decision.
    """

    argument: str | None = Field(
        None, description="the argument of the model that is decided about"
    )
    per: str | None = Field(None, description="a plate, an argument with groups of rows, or 'all'")


def _names(what: str) -> Any:
    """A section that names a value, described for messages."""
    return Field(None, description=f"the name of {what}, or a table from it to its arguments")


class Spec(Section):
    """A whole spec."""

    title: str | None = Field(None, description="a string")
    seed: int = Field(0, ge=0, lt=2**32, description="a whole number from 0 to 4294967295")
    model: ModelSection = Field(
        ModelSection.model_construct(),
        description="a table with `python` and `outcome`, or `example`",
    )
    data: DataSection = Field(
        DataSection.model_construct(), description="a table with `file` and `columns`"
    )
    loss: CostSection | None = _names("a loss")
    utility: CostSection | None = _names("a utility")
    guide: NamedValue | None = _names("an autoguide")
    decision: DecisionSection | None = _names("a space")
    transform: NamedValue | None = _names("a transform")
    method: NamedValue | None = _names("a method")
    expectation: NamedValue | None = _names("an expectation")
    estimator: NamedValue | None = _names("an estimator")
    fit: FitSection = Field(FitSection.model_construct(), description="a table")
    choose: ChooseSection = Field(ChooseSection.model_construct(), description="a table")
