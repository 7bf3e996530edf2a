"""A spec on its way to a job: its parts looked up and checked one by one, mistakes gathered."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from stakes import demos
from stakes.app.spec.constructors import (
    ESTIMATOR,
    EXPECTATION,
    FOLDS,
    GUIDE,
    LOSS,
    METHOD,
    SPACE,
    TRANSFORM,
    UTILITY,
    WAY,
    Constructors,
    Slot,
    T,
)
from stakes.app.spec.messages import Collector, mistakes_of
from stakes.app.spec.reading import Tables, read_tables, table_file
from stakes.app.spec.schema import Choice, DataSection, Spec
from stakes.app.spec.source import UserCode
from stakes.app.spec.table import Table, by_name
from stakes.arguments import arguments_of
from stakes.errors import name_of, suggestion
from stakes.fitting import adam
from stakes.formulas import formula, formula_columns
from stakes.problem import Problem
from stakes.protocols import Space
from stakes.spaces import Real
from stakes.study import Forward, Given, Options, Way, check_ways, default_ways, why_not_judged

MADE: dict[str, Slot[Any]] = {
    "transform": TRANSFORM,
    "method": METHOD,
    "expectation": EXPECTATION,
    "estimator": ESTIMATOR,
}
"""Options of the fits that are values."""


@final
@dataclass(frozen=True, eq=False)
class Choosing:
    """Among which ways to choose, and by which rows."""

    ways: tuple[Way, ...]
    folds: int | Forward | np.ndarray
    by: str | np.ndarray | None


@final
@dataclass
class Draft:
    """A spec in which some sections may be wrong; those are None."""

    spec: Spec
    raw: Mapping[str, Any]
    code: UserCode
    mistakes: Collector
    read: Tables | None = None
    """The tables, once they have been read."""
    model: Callable[..., Any] | None = None
    outcome: str | None = None
    example: demos.Demo | None = None
    dates: tuple[str, ...] = ()
    """Columns of which a formula asks for parts of dates."""
    asked: tuple[str, ...] = ()
    """What loss and decisions ask for, beside the model."""
    made: dict[str, Any] = field(default_factory=dict)
    """Options of the fits that the spec names."""
    ways: Sequence[Way] | None = None
    folds: int | Forward | np.ndarray | None = None

    @classmethod
    def of(
        cls,
        raw: Mapping[str, Any],
        folder: Path,
        mistakes: Collector,
        *,
        expected: Mapping[str, str] | None = None,
    ) -> "Draft":
        """The draft of a spec as written; `expected` has the checksums its code has to have."""
        return cls(_validated(raw, mistakes), raw, UserCode(folder, expected), mistakes)

    def problem(self, tables: Tables | None = None) -> Problem | None:
        """The problem; a model that is made from a table needs it, or reads it."""
        self.read = tables
        self._check_together()
        self._find_model()
        section = self.spec.decision
        loss = self._make(LOSS, "loss", self.spec.loss)
        utility = self._make(UTILITY, "utility", self.spec.utility)
        guide = self._make(GUIDE, "guide", self.spec.guide)
        space = self._make(SPACE, "decision", section) if section and section.named else None
        for name, slot in MADE.items():
            self.made[name] = self._make(slot, name, getattr(self.spec, name))
        self._make_choice()
        if self.mistakes.mistakes or self.model is None or self.outcome is None:
            return None
        own = self.example.problem() if self.example else None
        if own is not None and loss is None and utility is None:
            loss, utility = own.loss, own.utility
        decision: Space | dict[str, Space] | None = space
        if section is not None and section.argument is not None:
            decision = {section.argument: space or Real()}
        with self.mistakes.at("model"):
            problem = Problem(
                self.model,
                outcome=self.outcome,
                loss=loss,
                utility=utility,
                guide=guide or (own.guide if own else None),
                decision=decision or (own.decision if own else None),
                per=section.per if section is not None else (own.per if own else None),
            )
            self.asked = tuple(problem.named_needs)
            reason = why_not_judged(problem)
            if reason is not None and "choose" in self.raw and not self.spec.choose.skip:
                self.mistakes.add("choose", f"{reason} Leave it out.")
            return problem
        return None

    def tables(self) -> Tables | None:
        if self.example is not None:
            held_out = self.example.held_out
            return Tables(
                Table(dict(self.example.data()), None),
                None if held_out is None else Table(dict(held_out()), None),
            )
        data = self.spec.data
        if data is None or self.outcome is None:
            return None
        if self.read is None:
            self._check_arguments(data)
            self.read = read_tables(
                data,
                self.spec.choose,
                self._by_row(data) or self.outcome,
                self.code.folder,
                self.mistakes,
                coded=self.spec.model.formula is None,
                dates=self.dates,
            )
        return self.read

    def options(self) -> Options:
        """Those in the spec; for an example, its own where the spec has none."""
        given = self.spec.fit.model_dump(exclude_unset=True, exclude={"checkpoint_seconds"})
        rate = given.pop("learning_rate", None)
        given |= {} if rate is None else {"optimizer": adam(rate)}
        given |= {name: value for name, value in self.made.items() if value is not None}
        own = {} if self.example is None else dict(self.example.options)
        if "utility" in self.raw:
            own.pop("transform", None)
        return Options(**{**own, **given})

    def choosing(self, problem: Problem, fit: Table) -> Choosing | None:
        section, example = self.spec.choose, self.example
        if section.skip or why_not_judged(problem) is not None:
            return None
        ways = default_ways(problem) if self.ways is None else [*self.ways]
        if "today" in fit.beside:
            ways.append(Given(fit.beside["today"]))
        folds = section.folds if self.folds is None else self.folds
        if (
            example is not None
            and example.folds is not None
            and "folds" not in section.model_fields_set
        ):
            folds = example.folds
        if isinstance(folds, Forward):
            folds = replace(folds, together=fit.beside.get("when", folds.together))
        return Choosing(tuple(ways), folds, fit.beside.get("by", section.by))

    def _make(self, slot: Slot[T], where: str, section: Choice | None) -> T | None:
        """The value that a section names."""
        if section is None:
            return None
        makes = Constructors(self.code, self.mistakes)
        return makes.make(slot, where, section.named, type(section).model_fields)

    def _make_choice(self) -> None:
        section, makes = self.spec.choose, Constructors(self.code, self.mistakes)
        if section is None:
            return
        if isinstance(section.folds, int):
            with self.mistakes.at("choose.folds"):
                self.folds = FOLDS.check("`folds`", section.folds)
        else:
            self.folds = makes.make(FOLDS, "choose.folds", section.folds)
        if section.ways is None:
            return
        ways = [makes.make(WAY, f"choose.ways.{i}", way) for i, way in enumerate(section.ways)]
        with self.mistakes.at("choose.ways"):
            self.ways = check_ways(ways) if None not in ways else None

    def _check_together(self) -> None:
        """Check that the sections go together."""
        given, add = {*self.raw}, self.mistakes.add
        if {"loss", "utility"} <= given:
            add("utility", "a problem has a loss or a utility, not both; leave one out.")
        if {"transform", "utility"} <= given:
            add("transform", "turns a loss into a utility; leave it out where there is `utility`.")
        model = self.spec.model
        if model is None:
            return
        if model.example is None:
            if "data" not in given:
                add("data", "is required: a table with `file` and `columns`.")
            if not {"loss", "utility"} & given:
                add("loss", "is required: the name of a loss; or `utility` instead.")
        elif "data" in given:
            add("data", "leave it out: the example has its own.")
        elif "today" in self.raw.get("choose", {}):
            add("choose.today", "leave it out: an example has no table.")

    def _find_model(self) -> None:
        model = self.spec.model
        if model is None:
            return
        if model.python is not None:
            self.outcome = model.outcome
            with self.mistakes.at("model.python"):
                self.model = self.code.function(model.python)
        elif model.formula is not None:
            with self.mistakes.at("model.formula"):
                self._make_formula(model.formula)
        elif model.example is not None:
            with self.mistakes.at("model.example"):
                self.example = demos.load(model.example)
                own = self.example.problem()
                self.model, self.outcome = own.model, own.outcome
                self.code.read(self.example.path)

    def _make_formula(self, text: str) -> None:
        """A model from a formula and the table; the columns are those that it names."""
        data, model = self.spec.data, self.spec.model
        if data is None:
            return
        for name in ("counts", "constants", "outcome"):
            if getattr(data, name):
                self.mistakes.add(f"data.{name}", "leave it out: the formula names its columns.")
        if self.read is None:
            columns = table_file(data, (self.code.folder / data.file).resolve()).columns
        else:
            columns = [*self.read.fit.arguments]
        needed = formula_columns(text, [*data.columns, *columns])
        for name in data.columns:
            if name not in needed.columns:
                self.mistakes.add(
                    f"data.columns.{name}", "the formula does not name it; leave it out."
                )
        named = {name: data.columns.get(name, name) for name in needed.columns}
        section = data.model_copy(update={"columns": named, "outcome": named[needed.response]})
        self.spec = self.spec.model_copy(update={"data": section})
        self.outcome = needed.response
        self.dates = tuple(named[name] for name in needed.dates)
        tables = None if self.mistakes.mistakes else self.tables()
        if tables is not None:
            listed = [name for name, column in named.items() if column in data.categories]
            frame = by_name(tables.fit.arguments, needed.dates, listed)
            self.model = formula(text, frame, model.family or "normal", link=model.link)

    def _by_row(self, data: DataSection) -> str | None:
        """In place of an outcome that is never observed, an argument with a value for each row."""
        if not self.spec.model.latent:
            return None
        if data.outcome is not None:
            self.mistakes.add("data.outcome", "leave it out: the outcome is never observed.")
        if not data.columns:
            self.mistakes.add("data.columns", "is required: a list of columns.")
        return next(reversed(data.columns), None)

    def _check_arguments(self, data: DataSection) -> None:
        """The names in [data] against the model's signature."""
        if self.model is None:
            return
        takes, model, latent = arguments_of(self.model), name_of(self.model), self.spec.model.latent
        given = {
            name: part
            for part in ("columns", "counts", "constants")
            for name in getattr(data, part)
        }
        for name, part in given.items():
            if name not in (*takes.names, *self.asked) and not takes.open_ended:
                meant = suggestion(name, takes.names)
                self.mistakes.add(f"data.{part}.{name}", f"`{model}` has no such argument.{meant}")
        for name in takes.required:
            if name not in given and name != self.outcome:
                self.mistakes.add("data", f"`{model}` needs {name!r}. {_ways_to_give(name, data)}")
        if latent and self.outcome in takes.names:
            self.mistakes.add(
                "model.latent", f"`{model}` takes observations of {self.outcome!r}; leave it out."
            )
        elif self.outcome not in takes.names and not takes.open_ended and not latent:
            meant = suggestion(str(self.outcome), takes.names)
            self.mistakes.add(
                "model.outcome",
                f"`{model}` has no argument {self.outcome!r} for outcomes.{meant} Say `latent = "
                f"true` if it is a site that is never observed.",
            )


def _ways_to_give(name: str, data: DataSection) -> str:
    columns = {**{column: column for column in data.columns.values()}, **data.columns}
    close = difflib.get_close_matches(name, columns, n=1)
    counted = columns[close[0]] if close else "a column"
    return (
        f"Name its column in `columns`; if it is a number of categories, the column that has them, "
        f'`counts = {{ {name} = "{counted}" }}`; or give its value in `constants`.'
    )


def _validated(raw: Mapping[str, Any], mistakes: Collector) -> Spec:
    """The spec, or only its valid sections, so that mistakes in the rest can be found too."""
    try:
        return Spec.model_validate(dict(raw))
    except ValidationError as error:
        mistakes.mistakes.extend(mistakes_of(error, Spec))
    right: dict[str, Any] = {}
    for name, known in Spec.model_fields.items():
        right[name] = None
        if name not in raw and not known.is_required():
            right[name] = known.default
            continue
        try:
            section: TypeAdapter[Any] = TypeAdapter(known.rebuild_annotation())
            right[name] = section.validate_python(raw.get(name), strict=True)
        except ValidationError:
            continue
    return Spec.model_construct(**right)
