"""A fit to more rows than memory holds: minibatches from disk, and decisions kept there.

The rows are copied once, in random order, so that reading on and on gives random minibatches. What
a fit has for single rows, their local parameters and decisions, is on disk, too. A model is traced
on a window of rows in memory, whose scale stands for all rows.

Each of several processes has a share of the rows on its disk. It takes its part of a minibatch from
there, decides about these rows, and sends the decisions to the others.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import jax
import numpy as np

from stakes import predicting
from stakes._types import Array, Batch, Key, Params
from stakes.arguments import arguments_of
from stakes.bridge import NumPyroApproximation, Predictor, check_even, parts_of, row_check
from stakes.errors import InputError, OutOfRangeError, name_of, some
from stakes.fitting import (
    EM,
    Feed,
    Fit,
    FitSettings,
    FreshDecisions,
    Hooks,
    State,
    axes_of,
)
from stakes.host.workers import ahead, on_all_cores
from stakes.port import Instances, Subsample
from stakes.predicting import FittedPosterior
from stakes.problem import Problem
from stakes.processes import NOWHERE, Processes
from stakes.protocols import Expectation
from stakes.study.data import reads_tables
from stakes.study.kept_rows import KeptRows, joined_rows, of_all
from stakes.study.options import Journal, Keys, Options
from stakes.study.plan import Plan
from stakes.tables import (
    ROW,
    OnDisk,
    Passes,
    Read,
    Shuffled,
    Stream,
    TableRows,
    Wanted,
    copy_shuffled,
    lacking,
    release_pages,
    source_of,
)

# Rows that the model is tried on, to see how many a step takes.
PROBED = 2**17
# Decisions of rows that are in memory at most, while those of a window go to the disk.
HELD = 2**20


@final
@dataclass(frozen=True, eq=False)
class StreamedRows:
    """All rows of a stream, on disk; in memory is a window of a hundred minibatches.

    Attributes:
        copy: the rows in random order, on disk.
        stream: where they come from.
        part: the plate of the rows, how many are in memory, and how many a step takes.
        key: of the sample.
        on: the processes that share the rows.
        rows: the sample, where the rows themselves are on the disks of workers.
    """

    copy: Shuffled
    stream: Stream
    part: Subsample
    key: Key
    on: Processes | None = None
    rows: np.ndarray | None = None
    _decided: list[tuple[Params, np.ndarray]] = field(default_factory=list)
    _kept: list[tuple[Params, KeptRows]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.copy)

    def __str__(self) -> str:
        return f"a random sample of {self.part.size:,} of {len(self):,} rows"

    @property
    def sample(self) -> Read:
        """A window of rows, chosen at random from all of them, the same in every process."""
        return _read(self.copy, self._sampled(), self)

    def _sampled(self) -> np.ndarray:
        """Return the rows of the sample, gathered from all processes."""
        if self.rows is not None:
            return self.rows
        own = Passes(self.copy, _seed(self.key)).take(0, self._each)
        return of_all(own, self.on)

    def elsewhere(self) -> "StreamedRows":
        """Return the same for a process without rows of its own; each process has to ask."""
        return replace(
            self, rows=self._sampled(), on=None, _kept=[], _decided=[], copy=self.copy.elsewhere()
        )

    def add_decisions(self, params: Params, decisions: np.ndarray) -> None:
        """Add decisions about all rows that were made elsewhere, by these parameters."""
        self._decided.append((params, decisions))

    def of(self, plan: Plan, journal: Journal | None = None) -> Plan:
        """Return a plan for the sample, as one for all rows.

        Refuses a model without minibatches of the rows, rows that it cannot take, and a journal for
        a guide with parameters of single rows, which no journal keeps.
        """
        _check(plan, self.part)
        plates = plan.approximation.structure.parameter_plates
        local = [name for name, axes in plates.items() if axes]
        if local and journal is not None:
            raise InputError(
                f"`journal=` keeps no parameters of single rows of a `Stream(...)`, and the guide "
                f"has {some(local)} for each. Leave the journal out."
            )
        if self.rows is None:
            self._check_rows(plan)
        assert isinstance(plan.method, EM)
        approximation = plan.approximation.standing_for(len(self))
        return replace(plan.on(approximation), method=FreshDecisions(plan.method))

    @property
    def _each(self) -> int:
        """Rows of a window that one process has."""
        return self.part.size // self.copy.processes

    def fit(
        self,
        go: Callable[..., Fit],
        approximation: NumPyroApproximation,
        state: State,
        settings: FitSettings,
        key: Key,
        start: Params,
        hooks: Hooks | None = None,
    ) -> Fit:
        """Return a fit to all rows, made by `go`; what it has for single rows is on disk.

        The parameters of the result have the rows of the sample.

        Args:
            go: makes the fit, with hooks that bring the rows.
            approximation: model and guide on the sample.
            state: where the fit begins; its parameters are those of `start`.
            settings: of the fit.
            key: of all random numbers.
            start: parameters that the fit begins with, maybe those of another fit.
            hooks: what else to do between chunks of steps.
        """
        axes = axes_of(approximation, self.part.plate, state, settings)
        hooks = hooks or Hooks()
        with self.feeding(approximation, key) as feed:
            if all(axis == NOWHERE for axis in jax.tree.leaves(axes)):
                return go(hooks=replace(hooks, feed=feed))
            kept = self._kept_rows(axes, state, key, start)
            found = go(hooks=replace(hooks, feed=feed, rows=kept))
        places = Passes(self.copy, _seed(self.key)).places(0, self._each)
        params = kept.params(found.params, places)
        if self.on is not None:
            params = joined_rows(params, axes.variables["params"], self.on)
        self._kept.append((params, kept))
        return replace(found, variables={**found.variables, "params": params})

    def _kept_rows(self, axes: State, state: State, key: Key, start: Params) -> KeptRows:
        """Return arrays on disk for what a fit has for each row."""
        passes, each = Passes(self.copy, _seed(key)), self.part.batch_size // self.copy.processes
        return KeptRows(
            self.copy.folder,
            f"fit {len(self._kept)}",
            axes,
            state,
            int(self.copy.shares[self.copy.process]),
            places=lambda step: passes.places(step * each, self._each),
            before=self._rows_of(start),
        )

    def _rows_of(self, params: Params) -> KeptRows | None:
        """Return the rows on disk of the fit with these parameters."""
        return next((rows for known, rows in self._kept if known is params), None)

    def begun(self, params: Params, start: Params) -> None:
        """Note the parameters of a fit that has got no further than to its `start`."""
        rows = self._rows_of(start)
        if rows is not None:
            self._kept.append((params, rows))

    @contextmanager
    def feeding(self, approximation: NumPyroApproximation, key: Key) -> Iterator[Feed]:
        """Read the rows of each chunk of steps while the chunk before is at work.

        A process takes its part of every minibatch from its own rows.
        """
        passes, part, processes = Passes(self.copy, _seed(key)), self.part, self.copy.processes
        each, share = part.batch_size // processes, int(self.copy.shares[self.copy.process])

        def make(step: int, count: int) -> tuple[NumPyroApproximation, Batch]:
            rows = passes.take(step * each, self._each)
            at = np.arange(count * each)
            if step * each % share + len(rows) > share:
                at = _first_of(rows[ROW][: count * each])
            members = (self.copy.process * self._each + at).astype(np.int32).reshape(count, each)
            return approximation.of_rows(self._arrays(rows, put)), {part.plate: members}

        # Of several processes, each has its part of the rows of a chunk.
        put = jax.device_put if self.on is None else partial(self.on.shared, axis=0)
        with ahead(make) as feed:
            yield feed

    def decisions(
        self,
        problem: Problem,
        posterior: FittedPosterior,
        predictor: Predictor,
        expectation: Expectation,
        keys: Keys,
    ) -> np.ndarray:
        """Return the best decision for each row, in an array on disk, in the order of the table.

        Each of several processes has to ask, and gets the decisions of all of them.

        Args:
            problem: decisions and costs.
            posterior: of one of the fits.
            predictor: the model on the sample.
            expectation: how costs are averaged over outcomes.
            keys: random keys of the result.
        """
        for params, known in self._decided:
            if params is posterior.params:
                return known
        if self.rows is not None:
            raise InputError(
                "Workers decide about all rows of a `Stream(...)` by the two fits that they have "
                "made, and by no other."
            )
        if problem.space.axes:
            raise InputError("Decisions with several parts are not found for all rows of a stream.")

        approximation, kept = posterior.approximation, self._rows_of(posterior.params)
        if kept is None and any(approximation.structure.parameter_plates.values()):
            raise InputError(
                "Nothing is known of the single rows of a `Stream(...)`: the fit was interrupted, "
                "or is not one of this result."
            )

        def decide(window: tuple[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
            start, rows = window
            arrays = self._arrays(np.resize(rows, self.part.size))
            here = replace(predictor, arrays={**predictor.arrays, **arrays})
            own = replace(posterior, approximation=approximation.of_rows(arrays))
            if kept is not None:
                places = np.resize(np.arange(start, start + len(rows)), self.part.size)
                own = replace(own, params=kept.params(posterior.params, places))
            found = predicting.decide(problem.task, own, here, expectation, keys.decisions)
            return rows[ROW], found[: len(rows)]

        kind = np.dtype(jax.dtypes.canonicalize_dtype(float))
        made = self.copy.folder.array(f"decisions {len(self._decided)}", kind, (len(self),))
        # A collective gives up when another process keeps it waiting for long: nothing is computed
        # beside it where there are several.
        spread = on_all_cores if self.on is None else map
        for numbers, found in self._of_all_windows(spread(decide, self._windows()), kind):
            _fill(made, numbers, found)
        self._decided.append((posterior.params, made))
        return made

    def _of_all_windows(
        self, own: Iterator[tuple[np.ndarray, np.ndarray]], kind: np.dtype[Any]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield numbers of rows and their decisions, of a window of each process at a time.

        Args:
            own: the same of this process.
            kind: the type of a decision.
        """
        form = np.dtype([(ROW, np.int64), ("decision", kind)])
        for _ in range(-(-int(self.copy.shares.max()) // self.part.size)):
            # A smaller share has none left in the end.
            numbers, found = next(own, ((), ()))
            told = np.empty(len(numbers), form)
            told[ROW], told["decision"] = numbers, found
            told = of_all(told, self.on)
            yield told[ROW], told["decision"]

    def _check_rows(self, plan: Plan) -> None:
        """Refuse rows that the model cannot take: the sample need not have them."""
        check = row_check(plan.problem, plan.approximation, self.key)
        for _, rows in self._windows():
            try:
                check(self._arrays(np.resize(rows, self.part.size)))
            except OutOfRangeError as error:
                words = self.copy.coding.categories.get(error.argument)
                value = error.value if words is None else repr(words[error.value])
                row = int(rows[ROW][error.row % len(rows)])
                raise InputError(
                    f"`Stream(...)`: row {self.copy.place(row)}, column {error.argument!r} has "
                    f"{value}, which is number {error.value} where the model has {error.size}, "
                    f"numbered from 0. Say how many there are: `Stream(..., constants={{...}})`."
                ) from None

    @property
    def instances(self) -> Instances:
        """The shape of all rows, and the name of their plate."""
        return Instances((len(self),), (self.part.plate,))

    def _windows(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the rows here, a window at a time, each with the place of its first row."""
        held, size, start = np.empty(0, self.copy.dtype), self.part.size, 0
        for file in self.copy.files:
            while len(held) >= size:
                yield start, held[:size]
                held, start = held[size:], start + size
            held = np.concatenate([held, self.copy.read(file)])
        yield from ((start + i, held[i : i + size]) for i in range(0, len(held), size))

    def _arrays(
        self, rows: np.ndarray, put: Callable[[np.ndarray], Array] = jax.device_put
    ) -> dict[str, Any]:
        """Return rows as arguments of the model."""
        names = [name for name in self.copy.dtype.names or () if name != ROW]
        arrays = {name: np.ascontiguousarray(rows[name]) for name in names}
        return {name: put(array) for name, array in arrays.items()}


def opened(
    problem: Problem, stream: Stream, steps: int, key: Key, on: Processes | None = None
) -> "StreamedRows | Read":
    """Return the rows of a stream: on disk, or in memory if that many steps would take them all.

    Each of several processes has a share of the rows on its disk; in memory, all have all.

    Args:
        problem: the model says which columns are read.
        stream: files or a query.
        steps: of one chunk, whose rows have to fit into memory.
        key: of the order of the rows.
        on: the processes that share them.
    """
    if reads_tables(problem.model):
        raise InputError(
            "`Stream(...)` is for models that take minibatches; one made by `formula` reads whole "
            "tables. Give a DataFrame, or write the model in NumPyro."
        )
    sources = stream.sources()
    there = list(dict.fromkeys(name for each in sources for name in each.schema.names))
    arguments = arguments_of(problem.model)
    asked = dict.fromkeys((*arguments.names, *problem.named_needs))
    names = [name for name in asked if source_of(name, there)[0] in there]
    names = [name for name in names if name not in stream.constants]
    required = tuple(name for name in arguments.required if name not in stream.constants)
    wanted = Wanted(tuple(asked), required, problem.observations, name_of(problem.model))
    faults = lacking(wanted, names, there, needs_outcome=True)
    if faults:
        raise InputError(f"`{stream!r}`: {faults[0]}")
    index, count = (0, 1) if on is None else (on.index, on.count)
    copying = partial(
        copy_shuffled, sources, names, problem.observations, _seed(key), stream.scratch
    )
    copy = copying(process=index, processes=count)
    if on is not None and np.ptp(on.gather(np.uint32(copy.checksum))):
        raise InputError(
            f"`{stream!r}`: the rows that processes have read are not the same, or come in another "
            f"order in each. Give all of them the same files, or let a query sort its rows."
        )
    few = min(int(copy.shares[index]), -(-PROBED // count))
    tried = of_all(Passes(copy, _seed(key)).take(0, few), on)
    whole = StreamedRows(copy, stream, Subsample("", len(tried), len(tried)), key, on)
    data = problem.check_data(_read(copy, tried, whole).arguments, needs_outcome=True)
    parts = [part for part in parts_of(problem, data, key) if part.size == len(tried)]
    window = steps * parts[0].batch_size if parts else PROBED
    if len(copy) <= window or count * copy.shares.min() < window:
        rows = of_all(copy.in_order(), on)
        return _read(copy, rows[np.argsort(rows[ROW])], whole)
    if not parts:
        raise InputError(
            f"`{stream!r}` has {len(copy):,} rows, and the model takes all of them at each step. "
            f"Give the plate of its rows a `subsample_size=`, such as 1000."
        )
    check_even(parts[0], count)
    return replace(whole, part=parts[0]._replace(size=window))


def _read(copy: Shuffled, rows: np.ndarray, beyond: StreamedRows) -> Read:
    """Return rows as a table that has been read."""
    import pandas as pd

    columns = {name: rows[name] for name in copy.dtype.names or () if name != ROW}
    arguments = {**columns, **beyond.stream.constants}
    return Read(arguments, TableRows(pd.RangeIndex(len(rows))), copy.coding)


def _check(plan: Plan, part: Subsample) -> None:
    """Refuse a model that does not take the rows, and them alone, in minibatches."""
    cases = plan.approximation.trace
    if cases.subsamples != (part,) or cases.instances != ((part.size,), (part.plate,)):
        raise InputError(
            f"`Stream(...)` has one outcome in each row, so that the model must have one plate in "
            f"minibatches, of the rows, and outcomes in no other; it has outcomes in "
            f"{some(cases.instances.dims)}, and minibatches of "
            f"{some(each.plate for each in cases.subsamples)}."
        )


def _seed(key: Key) -> list[int]:
    """Return a key as whole numbers, for NumPy's generators."""
    return [int(word) for word in np.asarray(jax.random.key_data(key)).ravel()]


def _first_of(rows: np.ndarray) -> np.ndarray:
    """Return for each row where it comes first.

    A stretch that ends one pass and begins the next may have a row twice.
    """
    _, first, same = np.unique(rows, return_index=True, return_inverse=True)
    places: np.ndarray = first[same]
    return places


def _fill(made: OnDisk, at: np.ndarray, values: np.ndarray) -> None:
    """Set some places of an array on disk, of which little is in memory at any time.

    Places in random order may lie on all its pages; so they are gone through in order, and pages
    are left to the system as soon as they are done.
    """
    for part in np.array_split(np.argsort(at), -(-len(made) // HELD)):
        made[at[part]] = values[part]
        release_pages(made)


def options_for_stream(options: Options) -> Options:
    """Return options by which decisions of rows that come and go are made at each step."""
    method = EM() if options.method is None else options.method
    if not isinstance(method, EM):
        raise InputError(
            f"`method={method}` keeps a decision for each row, and the rows of a `Stream(...)` "
            f"come and go. Leave `method` out, or give `EM(...)`."
        )
    return replace(options, method=method)
