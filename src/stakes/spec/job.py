"""From a spec to all that `calibrate` needs, with every mistake found on the way told at once."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from pydantic import TypeAdapter, ValidationError

from stakes.errors import InputError
from stakes.problem import Problem, arguments_of
from stakes.spec import values
from stakes.spec.builtin import Example, example
from stakes.spec.messages import Collector, mistakes_of, suggestion
from stakes.spec.reading import read_tables
from stakes.spec.schema import Data, Spec
from stakes.spec.source import Code, read_code, run_code
from stakes.spec.table import Table


@final
@dataclass(frozen=True, eq=False)
class Job:
    """A spec with its code run and its data read."""

    spec: Spec
    folder: Path
    """Where relative paths in the spec start from."""
    problem: Problem
    fit: Table
    held_out: Table | None
    options: Mapping[str, Any]
    """Keyword arguments of `calibrate`."""
    coords: Mapping[str, Any]
    """Labels that come with an example."""
    known: tuple[str, ...]
    """Plates whose members are the same in the held-out data."""
    code: Mapping[str, str]
    """Python file -> its checksum."""
    files: tuple[Path, ...]
    """Files of data that were read."""

    @property
    def title(self) -> str:
        return self.spec.title or self.spec.model.example or f"{self.problem!r}"


def read_job(path: Path) -> Job:
    """Read a spec file, its code and its data."""
    return job_of(_toml(path), path.resolve().parent, where=str(path))


def job_of(raw: Mapping[str, Any], folder: Path, *, where: str) -> Job:
    """The job that the content of a spec file describes."""
    found = Collector()
    draft = _Draft(_validated(raw, found), raw, folder, found)
    problem = draft.problem()
    tables = draft.tables()
    found.raise_any(where)
    assert problem is not None
    assert tables is not None
    return draft.job(problem, *tables)


def restored_job(
    raw: Mapping[str, Any],
    folder: Path,
    tables: tuple[Table, Table | None],
    code: Mapping[str, str] | None,
    *,
    where: str,
) -> Job:
    """The job of an earlier run: its own data, and code with the checksums it had (None: any)."""
    found = Collector()
    draft = _Draft(_validated(raw, found), raw, folder, found, expected=code)
    problem = draft.problem()
    found.raise_any(where)
    assert problem is not None
    return draft.job(problem, *tables, ())


@final
@dataclass
class _Draft:
    """A spec of which some sections may be wrong: None stands for those."""

    spec: Spec
    raw: Mapping[str, Any]
    folder: Path
    found: Collector
    expected: Mapping[str, str] | None = None
    loaded: dict[Path, Code] = field(default_factory=dict)
    model: Callable[..., Any] | None = None
    outcome: str | None = None
    example: Example | None = None

    def problem(self) -> Problem | None:
        self._check_together()
        self._find_model()
        loss, utility, guide = self._cost_and_guide()
        if self.found.mistakes or self.model is None or self.outcome is None:
            return None
        own = self.example.problem() if self.example else None
        if own is not None and loss is None and utility is None:
            loss, utility = own.loss, own.utility
        with self.found.at("model"):
            return Problem(
                self.model,
                outcome=self.outcome,
                loss=loss,
                utility=utility,
                guide=guide or (own.guide if own else None),
            )
        return None

    def tables(self) -> tuple[Table, Table | None, tuple[Path, ...]] | None:
        if self.example is not None:
            held_out = Table(dict(self.example.held_out()), None) if self.example.held_out else None
            return Table(dict(self.example.data()), None), held_out, ()
        data = self.spec.data
        if data is None or self.outcome is None:
            return None
        self._check_arguments(data)
        read = read_tables(data, self.outcome, self.folder, self.found)
        return None if read is None else (read.fit, read.held_out, read.files)

    def job(
        self, problem: Problem, fit: Table, held_out: Table | None, files: tuple[Path, ...]
    ) -> Job:
        options = values.options(self.spec)
        if self.example:
            said = {*self.raw, *self.raw.get("fit", {})}
            own = {n: v for n, v in self.example.settings.items() if n not in said}
            options |= {n: v for n, v in own.items() if n != "transform" or "utility" not in said}
        code = {str(path): each.sha256 for path, each in self.loaded.items()}
        if self.example:
            code[str(self.example.path)] = read_code(self.example.path)[1]
        return Job(
            spec=self.spec,
            folder=self.folder,
            problem=problem,
            fit=fit,
            held_out=held_out,
            options=options,
            coords=self.example.coords if self.example else {},
            known=self.example.known if self.example else (),
            code=code,
            files=files,
        )

    def _check_together(self) -> None:
        """What one section says about another."""
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
        if model.python is not None and "data" not in given:
            add("data", "is required: a table with `file` and `columns`.")
        if model.python is not None and not {"loss", "utility"} & given:
            add("loss", "is required: a table with `name` or `python`; or `utility` instead.")

    def _find_model(self) -> None:
        model = self.spec.model
        if model is None:
            return
        if model.python is not None:
            self.model, self.outcome = self._get("model.python", model.python), model.outcome
            return
        assert model.example is not None
        with self.found.at("model.example"):
            self.example = example(model.example)
            own = self.example.problem()
            self.model, self.outcome = own.model, own.outcome
            self._check_hash(self.example.path, read_code(self.example.path)[1])

    def _cost_and_guide(self) -> tuple[Any, Any, Any]:
        spec, found = self.spec, self.found
        loss = utility = guide = None
        with found.at("loss"):
            loss = values.loss(spec.loss, self._get) if spec.loss else None
        with found.at("utility"):
            utility = values.utility(spec.utility, self._get) if spec.utility else None
        with found.at("guide"):
            guide = values.guide(spec.guide, self._get) if spec.guide else None
        return loss, utility, guide

    def _get(self, where: str, reference: str) -> Any:
        """The function that `file.py:name` stands for; None with a mistake noted."""
        file, _, name = reference.rpartition(":")
        path = (self.folder / file).resolve()
        with self.found.at(where):
            if path not in self.loaded:
                content, digest = read_code(path)
                self._check_hash(path, digest)
                self.loaded[path] = run_code(path, content, digest)
            return self.loaded[path].get(name)
        return _failed

    def _check_hash(self, path: Path, digest: str) -> None:
        if self.expected is not None and self.expected.get(str(path)) != digest:
            raise InputError(
                f"{path} has changed since the run. Put it back as it was, run again, or say "
                f"`--allow-changed-model` if the change does not matter."
            )

    def _check_arguments(self, data: Data) -> None:
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
            if name not in takes.names and not takes.open_ended:
                say = suggestion(name, takes.names)
                self.found.add(f"data.{part}.{name}", f"{name_of} has no such argument.{say}")
        for name in takes.required:
            if name not in given and name != self.outcome:
                self.found.add("data.columns", f"{name_of} needs {name!r}: say which column it is.")
        if self.outcome not in takes.names and not takes.open_ended:
            say = suggestion(str(self.outcome), takes.names)
            self.found.add(
                "model.outcome", f"{name_of} has no argument {self.outcome!r} to observe.{say}"
            )


def _failed(*_: Any, **__: Any) -> Any:
    """Stands for a function that could not be found, so that other mistakes are found too."""
    raise AssertionError


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"Cannot read {path}: {error.strerror}. `stakes init` writes a spec to start from."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}.") from None


def _validated(raw: Mapping[str, Any], found: Collector) -> Spec:
    """The spec; with mistakes noted, what of it is right, so that the rest can be checked too."""
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
