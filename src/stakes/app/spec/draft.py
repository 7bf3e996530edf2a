"""A spec on its way to a job: its parts looked up and checked one by one, mistakes gathered."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, final

from pydantic import TypeAdapter, ValidationError

from stakes import demos
from stakes.app.spec import choices
from stakes.app.spec.messages import Collector, mistakes_of
from stakes.app.spec.reading import Tables, read_tables, table_file
from stakes.app.spec.schema import DataSection, ModelSection, Spec
from stakes.app.spec.source import Code, read_code, run_code
from stakes.app.spec.table import Table, by_name
from stakes.arguments import arguments_of
from stakes.errors import InputError, suggestion
from stakes.formulas import formula, formula_columns
from stakes.problem import Problem
from stakes.protocols import Loss
from stakes.study import Forward, Given, Options, why_not_judged
from stakes.utilities import ExpUtility, Utility


@final
@dataclass(frozen=True, eq=False)
class Choosing:
    """Among which ways to choose, and by which rows."""

    ways: tuple[Any, ...]
    folds: Any
    by: Any


AnyUtility: TypeAlias = Utility | ExpUtility
Guide: TypeAlias = Callable[..., Any]


@final
@dataclass
class Draft:
    """A spec in which some sections may be wrong; those are None."""

    spec: Spec
    raw: Mapping[str, Any]
    folder: Path
    found: Collector
    expected: Mapping[str, str] | None = None
    loaded: dict[Path, Code] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    """Python file -> its checksum."""
    model: Callable[..., Any] | None = None
    outcome: str | None = None
    read: Tables | None = None
    """The tables, once they have been read."""
    example: demos.Demo | None = None
    dates: tuple[str, ...] = ()
    """Columns of which a formula asks for parts of dates."""
    asked: tuple[str, ...] = ()
    """What loss and decisions ask for, beside the model."""

    @classmethod
    def of(
        cls,
        raw: Mapping[str, Any],
        folder: Path,
        found: Collector,
        *,
        expected: Mapping[str, str] | None = None,
    ) -> "Draft":
        """The draft of a spec as written; `expected` has the checksums its code has to have."""
        return cls(_validated(raw, found), raw, folder, found, expected)

    def problem(self, tables: Tables | None = None) -> Problem | None:
        """The problem; a model that is made from a table needs it, or reads it."""
        self.read = tables
        self._check_together()
        self._find_model()
        loss, utility, guide = self._cost_and_guide()
        if self.found.mistakes or self.model is None or self.outcome is None:
            return None
        own = self.example.problem() if self.example else None
        if own is not None and loss is None and utility is None:
            loss, utility = own.loss, own.utility
        space, section = None, self.spec.decision
        with self.found.at("decision"):
            space = None if section is None else choices.space(section)
        with self.found.at("model"):
            problem = Problem(
                self.model,
                outcome=self.outcome,
                loss=loss,
                utility=utility,
                guide=guide or (own.guide if own else None),
                decision=space or (own.decision if own else None),
                per=section.per if section is not None else (own.per if own else None),
            )
            self.asked = tuple(problem.named_needs)
            self._check_judged(problem)
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
            by_table = getattr(self.spec.model, "formula", None) is not None
            self.read = read_tables(
                data,
                self.spec.choose,
                self._by_row(data) or self.outcome,
                self.folder,
                self.found,
                coded=not by_table,
                dates=self.dates,
            )
        return self.read

    @property
    def _is_latent(self) -> bool:
        return bool(getattr(self.spec.model, "latent", False))

    def _by_row(self, data: DataSection) -> str | None:
        """In place of an outcome that is never observed, an argument with a value for each row."""
        if not self._is_latent:
            return None
        if data.outcome is not None:
            self.found.add("data.outcome", "leave it out: the outcome is never observed.")
        if not data.columns:
            self.found.add("data.columns", "is required: a list of columns.")
        return next(reversed(data.columns), None)

    def options(self) -> Options:
        """Those in the spec; for an example, its own where the spec has none."""
        given = choices.options(self.spec)
        if self.example is None:
            return given
        said = {*self.raw, *self.raw.get("fit", {})}
        said |= {"transform"} if "utility" in said else set()
        own = {name: value for name, value in self.example.options.items() if name not in said}
        return replace(given, **own)

    @property
    def unit(self) -> str | None:
        """What costs are counted in, where the spec says so."""
        section = self.spec.loss or self.spec.utility
        return None if section is None else section.unit

    def choosing(self, problem: Problem, fit: Table) -> Choosing | None:
        section, example = self.spec.choose, self.example
        if section.skip or why_not_judged(problem) is not None:
            return None
        ways = choices.ways(section, problem)
        if "today" in fit.beside:
            ways.append(Given(fit.beside["today"]))
        folds = choices.folds(section.folds)
        if example is not None and example.folds is not None and "folds" not in self._said_of_it():
            folds = example.folds
        if isinstance(folds, Forward):
            folds = replace(folds, together=fit.beside.get("when", folds.together))
        by = fit.beside.get("by", section.by)
        return Choosing(tuple(ways), folds, by)

    def _check_judged(self, problem: Problem) -> None:
        """A choice among ways that nothing can judge is not asked for by mistake."""
        reason = why_not_judged(problem)
        if reason is not None and "choose" in self.raw and not self.spec.choose.skip:
            self.found.add("choose", f"{reason} Leave it out.")

    def _said_of_it(self) -> Mapping[str, Any]:
        said: Mapping[str, Any] = self.raw.get("choose", {})
        return said

    def _check_together(self) -> None:
        """Check that the sections go together."""
        given, add = {*self.raw}, self.found.add
        if {"loss", "utility"} <= given:
            add("utility", "a problem has a loss or a utility, not both; leave one out.")
        if {"transform", "utility"} <= given:
            add("transform", "turns a loss into a utility; leave it out where there is `utility`.")
        model = self.spec.model
        if not isinstance(self.raw.get("model"), Mapping) or model is None:
            return
        if model.example is not None and "data" in given:
            add("data", "leave it out: the example has its own.")
        if model.example is not None and getattr(self.spec.choose, "today", None) is not None:
            add("choose.today", "leave it out: an example has no table.")
        if model.example is None and "data" not in given:
            add("data", "is required: a table with `file` and `columns`.")
        if model.example is None and not {"loss", "utility"} & given:
            add("loss", "is required: a table with `name` or `python`; or `utility` instead.")

    def _find_model(self) -> None:
        model = self.spec.model
        if model is None:
            return
        if model.python is not None:
            self.model, self.outcome = self._get("model.python", model.python), model.outcome
            return
        if model.formula is not None:
            with self.found.at("model.formula"):
                self._make_formula(model)
            return
        assert model.example is not None
        with self.found.at("model.example"):
            self.example = demos.load(model.example)
            own = self.example.problem()
            self.model, self.outcome = own.model, own.outcome
            self._note_code(self.example.path, read_code(self.example.path)[1])

    def _make_formula(self, model: ModelSection) -> None:
        """A model from a formula and the table; the columns are those that it names."""
        data, text = self.spec.data, model.formula
        if data is None or text is None:
            return
        said = [n for n in ("counts", "constants") if getattr(data, n)]
        for name in said + (["outcome"] if data.outcome is not None else []):
            self.found.add(f"data.{name}", "leave it out: the formula names its columns.")
        if self.read is None:
            there = table_file(data, (self.folder / data.file).resolve()).columns
        else:
            there = [*self.read.fit.arguments]
        needed = formula_columns(text, [*data.columns, *there])
        for name in data.columns:
            if name not in needed.columns:
                self.found.add(
                    f"data.columns.{name}", "the formula does not name it; leave it out."
                )
        columns = {name: data.columns.get(name, name) for name in needed.columns}
        outcome = columns[needed.response]
        section = data.model_copy(update={"columns": columns, "outcome": outcome})
        self.spec = self.spec.model_copy(update={"data": section})
        self.outcome = needed.response
        self.dates = tuple(columns[name] for name in needed.dates)
        tables = None if self.found.mistakes else self.tables()
        if tables is not None:
            listed = [name for name, column in columns.items() if column in data.categories]
            frame = by_name(tables.fit.arguments, needed.dates, listed)
            self.model = formula(text, frame, model.family or "normal", link=model.link)

    def _cost_and_guide(self) -> tuple[Loss | None, AnyUtility | None, Guide | None]:
        spec, found = self.spec, self.found
        loss = utility = guide = None
        with found.at("loss"):
            loss = choices.loss(spec.loss, self._get, self.folder) if spec.loss else None
        with found.at("utility"):
            utility = choices.utility(spec.utility, self._get) if spec.utility else None
        with found.at("guide"):
            guide = choices.guide(spec.guide, self._get) if spec.guide else None
        return loss, utility, guide

    def _get(self, where: str, reference: str) -> Callable[..., Any]:
        """The function that `file.py:name` stands for, or `_failed` and a mistake."""
        file, _, name = reference.rpartition(":")
        path = (self.folder / file).resolve()
        with self.found.at(where):
            if path not in self.loaded:
                content, digest = read_code(path)
                self._note_code(path, digest)
                self.loaded[path] = run_code(path, content, digest)
            return self.loaded[path].get(name)
        return _failed

    def _note_code(self, path: Path, digest: str) -> None:
        if self.expected is not None and self.expected.get(str(path)) != digest:
            raise InputError(
                f"{path} has changed since the run. Put it back as it was, run again, or say "
                f"`--allow-changed-model` if the change does not matter."
            )
        self.code[str(path)] = digest

    def _check_arguments(self, data: DataSection) -> None:
        """The names in [data] against the model's signature."""
        if self.model is None or self.model is _failed:
            return
        takes = arguments_of(self.model)
        given = {
            name: part
            for part in ("columns", "counts", "constants")
            for name in getattr(data, part)
        }
        name_of = f"`{getattr(self.model, '__name__', 'the model')}`"
        for name, part in given.items():
            if name not in (*takes.names, *self.asked) and not takes.open_ended:
                say = suggestion(name, takes.names)
                self.found.add(f"data.{part}.{name}", f"{name_of} has no such argument.{say}")
        for name in takes.required:
            if name not in given and name != self.outcome:
                self.found.add("data", f"{name_of} needs {name!r}. {_ways_to_give(name, data)}")
        if self._is_latent and self.outcome in takes.names:
            self.found.add(
                "model.latent", f"{name_of} takes observations of {self.outcome!r}; leave it out."
            )
        elif self.outcome not in takes.names and not takes.open_ended and not self._is_latent:
            say = suggestion(str(self.outcome), takes.names)
            self.found.add(
                "model.outcome",
                f"{name_of} has no argument {self.outcome!r} for outcomes.{say} Say `latent = "
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


def _failed(*_: Any, **__: Any) -> Any:
    """Stands for a function that could not be found, so that other mistakes are found too."""
    raise AssertionError


def _validated(raw: Mapping[str, Any], found: Collector) -> Spec:
    """The spec, or only its valid sections, so that mistakes in the rest can be found too."""
    try:
        return Spec.model_validate(dict(raw))
    except ValidationError as error:
        found.mistakes.extend(mistakes_of(error, Spec))
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
