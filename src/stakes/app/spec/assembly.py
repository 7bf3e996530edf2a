"""Assembly of a problem from a spec.

Each part is made and checked by itself, and its mistakes are gathered, so that all of them are
reported at once.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from pydantic import ValidationError

from stakes import demos
from stakes.app.spec.constructors import FOLDS, SECTIONS, WAY, Constructors
from stakes.app.spec.data_tables import Tables, read_tables, table_file
from stakes.app.spec.messages import Collector, mistakes_of
from stakes.app.spec.schema import DataSection, Spec
from stakes.app.spec.source import UserCode
from stakes.app.spec.table import Table, by_name
from stakes.arguments import arguments_of
from stakes.errors import name_of, suggestion
from stakes.fitting import adam
from stakes.formulas import formula, formula_columns
from stakes.problem import Problem
from stakes.spaces import Real
from stakes.study import (
    Calibrated,
    Forward,
    Given,
    Options,
    Strategy,
    calibrations,
    check_ways,
    default_ways,
)

# Sections that are options of the fits, and no part of the problem.
OPTIONS = ("transform", "method", "expectation", "estimator")


@final
@dataclass(frozen=True, eq=False)
class Choosing:
    """The strategies to choose among, and the folds that judge them.

    Attributes:
        ways: the strategies.
        folds: the number of random folds, blocks forward in time, or the fold of each outcome.
        by: what says which outcomes stay in one fold: a group for each row, or the name of a plate
            or argument.
    """

    ways: tuple[Strategy, ...]
    optional: tuple[Strategy, ...]
    """Calibrated fits among them, to be tried only where they could matter."""
    folds: int | Forward | np.ndarray
    by: str | np.ndarray | None

    @property
    def calibrated(self) -> tuple[Calibrated, ...]:
        """The strategies that take a calibrated fit of their own."""
        return tuple(way for way in self.ways if isinstance(way, Calibrated))


@final
class Assembly:
    """A problem with its tables, made from a spec.

    Where there are mistakes, `mistakes` has them, and parts that depend on these are None.

    Args:
        raw: the spec as written.
        folder: where relative paths in it start from.
        tables: those of an earlier run, in place of the files that the spec names.
        code: the checksums that the user's Python files must have; None for any.

    Attributes:
        spec: the spec, validated; sections with mistakes are left out.
        mistakes: what is wrong with it.
        code: the Python files that it names.
        example: the built-in example that it names, if any.
        problem: model, outcome and loss.
        tables: the rows to fit to, and those held out.
    """

    def __init__(
        self,
        raw: Mapping[str, object],
        folder: Path,
        tables: Tables | None,
        code: Mapping[str, str] | None,
    ) -> None:
        self.raw, self.mistakes, self.code = raw, Collector(), UserCode(folder, code)
        self.spec = _validated(raw, self.mistakes)
        self._makes = Constructors(self.code, self.mistakes)
        self.example: demos.Demo | None = None
        self._tables = tables
        self._model: Callable[..., Any] | None = None
        self._outcome: str | None = None
        self._dates: tuple[str, ...] = ()  # columns of which a formula asks for parts of dates
        self._needs: tuple[str, ...] = ()  # arguments that loss and decision space ask for
        self._check_together()
        self._find_model()
        self._made = self._make_values()
        self._ways, self._folds = self._make_ways(), self._make_folds()
        self.problem = self._make_problem()
        self.tables = self._read_tables()

    def _make_values(self) -> dict[str, Any]:
        """Make the values that sections name: a loss, a guide, a method.

        Returns:
            Section -> its value.
        """
        made: dict[str, Any] = {}
        for name, slot in SECTIONS.items():
            section = getattr(self.spec, name)
            if section is not None and (section.named or name != "decision"):
                fields = type(section).model_fields
                made[name] = self._makes.make(slot, name, section.named, fields)
        return made

    def _make_problem(self) -> Problem | None:
        """Put model, loss and decision space together.

        Where the spec leaves out guide, loss or space of an example, they are those of the example.
        A choice that data cannot judge is a mistake if the spec asks for it, and is left out
        otherwise.

        Returns:
            The problem; None where one of its parts has a mistake.
        """
        if self.mistakes.mistakes or self._model is None or self._outcome is None:
            return None
        section, given = self.spec.decision, dict[str, Any]()
        if self.example is not None:
            own = self.example.problem()
            given = {"guide": own.guide, "decision": own.decision, "per": own.per}
            if not {"loss", "utility"} & {*self._made}:
                given |= {"loss": own.loss, "utility": own.utility}
        given |= {name: value for name, value in self._made.items() if name not in OPTIONS}
        if section is not None:
            given["per"] = section.per
            if section.argument is not None:
                space = self._made.get("decision", Real())
                given["decision"] = {section.argument: space}
        with self.mistakes.at("model"):
            problem = Problem(self._model, outcome=self._outcome, **given)
            self._needs = tuple(problem.named_needs)
            reason = problem.why_not_judged
            if reason is not None and "choose" in self.raw and not self.spec.choose.skip:
                self.mistakes.add("choose", f"{reason} Leave it out.")
            return problem
        return None

    def _read_tables(self) -> Tables | None:
        """The tables of the job.

        They are those given, those of the example, or those of the files that the spec names. They
        are read once, though a formula asks for them before the problem is complete.
        """
        if self._tables is not None:
            return self._tables
        if self.example is not None:
            held_out = self.example.held_out
            return Tables(
                Table(dict(self.example.data()), None),
                None if held_out is None else Table(dict(held_out()), None),
            )
        data = self.spec.data
        if not data.model_fields_set or self._outcome is None:
            return None
        self._check_arguments(data)
        self._tables = read_tables(
            data,
            self.spec.choose,
            self._by_row(data) or self._outcome,
            self.code.folder,
            self.mistakes,
            coded=self.spec.model.formula is None,
            dates=self._dates,
        )
        return self._tables

    def options(self) -> Options:
        """The options of the fits; those of an example count where the spec has none."""
        given = self.spec.fit.model_dump(exclude_unset=True, exclude={"checkpoint_seconds"})
        rate = given.pop("learning_rate", None)
        given |= {} if rate is None else {"optimizer": adam(rate)}
        given |= {name: self._made[name] for name in OPTIONS if name in self._made}
        own = {} if self.example is None else dict(self.example.options)
        if "utility" in self.raw:
            own.pop("transform", None)
        return Options(**{**own, **given})

    def choosing(self, problem: Problem, fit: Table) -> Choosing | None:
        """The strategies and folds to choose by; None where the run makes the two fits alone.

        Args:
            problem: the problem of the spec.
            fit: the rows to fit to, which may have today's decisions, groups and an order.
        """
        section = self.spec.choose
        if section.skip or problem.why_not_judged is not None:
            return None
        ways = default_ways(problem) if self._ways is None else [*self._ways]
        if "today" in fit.beside:
            ways.append(Given(fit.beside["today"]))
        folds = self._folds
        if self.example is not None and "folds" not in section.model_fields_set:
            folds = self.example.folds or folds
        assert folds is not None
        if isinstance(folds, Forward):
            folds = replace(folds, together=fit.beside.get("when", folds.together))
        optional = () if self._ways is not None else tuple(calibrations(problem))
        return Choosing(tuple(ways), optional, folds, fit.beside.get("by", section.by))

    def _make_ways(self) -> Sequence[Strategy] | None:
        """The strategies that the spec lists; None where it lists none."""
        if self.spec.choose.ways is None:
            return None
        listed = enumerate(self.spec.choose.ways)
        ways = [self._makes.make(WAY, f"choose.ways.{number}", way) for number, way in listed]
        with self.mistakes.at("choose.ways"):
            return check_ways(ways) if None not in ways else None
        return None

    def _make_folds(self) -> int | Forward | None:
        """The number of folds, or blocks forward in time."""
        given = self.spec.choose.folds
        if not isinstance(given, int):
            return self._makes.make(FOLDS, "choose.folds", given)
        with self.mistakes.at("choose.folds"):
            return FOLDS.check("`folds`", given)
        return None

    def _check_together(self) -> None:
        """Check that the sections go together.

        A problem has a loss or a utility. A transform makes a utility of a loss, and an example has
        its data.
        """
        given, add = {*self.raw}, self.mistakes.add
        if {"loss", "utility"} <= given:
            add("utility", "a problem has a loss or a utility, not both; leave one out.")
        if {"transform", "utility"} <= given:
            add("transform", "turns a loss into a utility; leave it out with a `utility`.")
        if "model" not in given:
            add("model", "is required: a table with `python` and `outcome`, or `example`.")
        model = self.spec.model
        if not model.model_fields_set:
            return
        if model.example is None:
            if "data" not in given:
                add("data", "is required: a table with `file` and `columns`.")
            if not {"loss", "utility"} & given:
                add("loss", "is required: the name of a loss; or `utility` instead.")
        elif "data" in given:
            add("data", "leave it out: the example has its own.")
        elif self.spec.choose.today is not None:
            add("choose.today", "leave it out: an example has no table.")

    def _find_model(self) -> None:
        """Find the model: the user's Python, a formula, or a built-in example."""
        model = self.spec.model
        if model.python is not None:
            self._outcome = model.outcome
            with self.mistakes.at("model.python"):
                self._model = self.code.function(model.python)
        elif model.formula is not None:
            with self.mistakes.at("model.formula"):
                self._make_formula(model.formula)
        elif model.example is not None:
            with self.mistakes.at("model.example"):
                self.example = demos.load(model.example)
                own = self.example.problem()
                self._model, self._outcome = own.model, own.outcome
                self.code.read(self.example.path)

    def _make_formula(self, text: str) -> None:
        """Make the model of a formula.

        Its columns are those that the formula names, so that the tables are read here: families and
        priors depend on them.
        """
        data, model = self.spec.data, self.spec.model
        if not data.model_fields_set:
            return
        for name in ("counts", "constants", "outcome"):
            if getattr(data, name):
                self.mistakes.add(f"data.{name}", "leave it out: the formula names its columns.")
        if self._tables is None:
            columns = table_file(data, (self.code.folder / data.file).resolve()).columns
        else:
            columns = [*self._tables.fit.arguments]
        needed = formula_columns(text, [*data.columns, *columns])
        for name in data.columns:
            if name not in needed.columns:
                self.mistakes.add(
                    f"data.columns.{name}", "the formula does not name it; leave it out."
                )
        named = {name: data.columns.get(name, name) for name in needed.columns}
        section = data.model_copy(update={"columns": named, "outcome": named[needed.response]})
        self.spec = self.spec.model_copy(update={"data": section})
        self._outcome = needed.response
        self._dates = tuple(named[name] for name in needed.dates)
        tables = None if self.mistakes.mistakes else self._read_tables()
        if tables is not None:
            listed = [name for name, column in named.items() if column in data.categories]
            frame = by_name(tables.fit.arguments, needed.dates, listed)
            self._model = formula(text, frame, model.family or "normal", link=model.link)

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
        """Check the names in [data] against the signature of the model.

        Every argument that the model needs must be given, and nothing that it does not take, unless
        loss or decision space ask for it. Observations belong to an argument named like the
        outcome.
        """
        if self._model is None:
            return
        takes, model, latent = (
            arguments_of(self._model),
            name_of(self._model),
            self.spec.model.latent,
        )
        given = {
            name: part
            for part in ("columns", "counts", "constants")
            for name in getattr(data, part)
        }
        for name, part in given.items():
            if name not in (*takes.names, *self._needs) and not takes.open_ended:
                meant = suggestion(name, takes.names)
                self.mistakes.add(f"data.{part}.{name}", f"`{model}` has no such argument.{meant}")
        for name in takes.required:
            if name not in given and name != self._outcome:
                self.mistakes.add("data", f"`{model}` needs {name!r}. {_ways_to_give(name, data)}")
        if latent and self._outcome in takes.names:
            self.mistakes.add(
                "model.latent", f"`{model}` takes observations of {self._outcome!r}; leave it out."
            )
        elif self._outcome not in takes.names and not takes.open_ended and not latent:
            meant = suggestion(str(self._outcome), takes.names)
            self.mistakes.add(
                "model.outcome",
                f"`{model}` has no argument {self._outcome!r} for outcomes.{meant} Say `latent = "
                f"true` if it is a site that is never observed.",
            )


def _ways_to_give(name: str, data: DataSection) -> str:
    """The ways in which a spec can give an argument that the model needs.

    Args:
        name: of the argument.
        data: the [data] section, which may name a similar column.
    """
    columns = {**{column: column for column in data.columns.values()}, **data.columns}
    close = difflib.get_close_matches(name, columns, n=1)
    counted = columns[close[0]] if close else "a column"
    return (
        f"Name its column in `columns`; if it is a number of categories, the column that has them, "
        f'`counts = {{ {name} = "{counted}" }}`; or give its value in `constants`.'
    )


def _validated(raw: Mapping[str, object], mistakes: Collector) -> Spec:
    """Validate a spec; sections with mistakes are left out, so that the rest is checked, too."""
    try:
        return Spec.model_validate(dict(raw))
    except ValidationError as error:
        mistakes.mistakes.extend(mistakes_of(error, Spec))
        wrong = {mistake["loc"][0] for mistake in error.errors()}
    return Spec.model_validate({name: part for name, part in raw.items() if name not in wrong})
