"""The journal of a run on disk: where both fits stand, in one file that is replaced as a whole.

While several processes make a fit, each writes the rows that it has, and the file says which files
of theirs belong to it. At the end of the fits, all is in the one file.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from stakes.app.runs import sealed, shares
from stakes.errors import Interrupted, StorageError, some
from stakes.fitting import NOWHERE, Average, History, Share
from stakes.host.watching import SAVED, STEP

Histories = dict[str, dict[str, np.ndarray]]
"""Title of a fit -> the arrays of its history."""

STAGE = ("stage", "stage_start", "round_start", "settled_start")
NUMBERS = (*STAGE, "older_count", "newer_count", "age", "restart")
OTHERS = ("seconds", "watched")
DECIDED = "decisions"
"""VI's decisions, kept beside the histories of the fits."""
TRACES = {"elbo": np.float64, "utility": np.float64, "finite": np.bool_}


@final
class FileJournal:
    """Saves every `interval` seconds, whenever another fit begins, and when interrupted.

    Args:
        path: of the file; the fits it holds already are resumed.
        interval: seconds between two checkpoints; zero for one after every chunk.
        interruption: called after each chunk; what it returns is raised once the history is saved.
        beat: told of each chunk that is about to begin, and of each record.
        in_shares: whether each of several processes has a journal at this path, and writes its rows
            beside it.
    """

    def __init__(
        self,
        path: Path,
        interval: float,
        *,
        interruption: Callable[[], Interrupted | None] = lambda: None,
        beat: Callable[[str], None] = lambda what: None,
        in_shares: bool = False,
    ) -> None:
        self._path, self._interval, self._interruption = path, interval, interruption
        self._beat, self._in_shares = beat, in_shares
        self._histories: Histories = read_histories(path) if path.exists() else {}
        self._last: tuple[str, History] | None = None
        self._saved = time.monotonic()

    def history(self, title: str, start: History) -> History:
        self.save()  # the fit before this one, at its end
        if title not in self._histories:
            return start
        arrays = shares.joined(self._path, title, self._histories[title])
        return _history(arrays, start, f"{self._path} ({title})")

    def keeper(self, title: str) -> "_Keeper | None":
        return _Keeper(self, title) if self._in_shares else None

    def write_rows(self, title: str, share: Share) -> str:
        """Write the rows of one process; returns the checksum."""
        steps, arrays = len(share.history.elbo), _arrays(share.history)
        path = shares.path_of(self._path, title, steps, share.process, share.of)
        return shares.save(path, arrays, _axes(share))

    def write_rest(self, title: str, share: Share, seals: Sequence[str]) -> None:
        """Write the file, to which the rows belong that all processes have written by now."""
        self._histories[title] = shares.named(_arrays(share.history), _axes(share), seals)
        self._write()
        self._beat(SAVED)
        interruption = self._interruption()
        if interruption is not None:
            raise interruption

    def due(self) -> bool:
        """Whether the history after the next chunk would be saved, as far as is known before it."""
        self._beat(STEP)
        return self._interruption() is not None or self._is_time()

    def watch(self, title: str, history: History) -> None:
        self._beat(SAVED)
        self._last = title, history
        interruption = self._interruption()
        if interruption is not None:
            self.save()
            raise interruption
        if self._is_time():
            self.save()

    def _is_time(self) -> bool:
        return time.monotonic() - self._saved >= self._interval

    def decisions(self, shape: tuple[int, ...]) -> np.ndarray | None:
        if DECIDED not in self._histories:
            return None
        kept = self._histories[DECIDED].get("VI")
        if kept is None or kept.shape != shape or kept.dtype.kind != "f":
            raise StorageError(
                f"{self._path} has no decisions of shape {shape}. It belongs to another model."
            )
        return kept

    def keep_decisions(self, decisions: np.ndarray) -> None:
        self._histories[DECIDED] = {"VI": np.asarray(decisions)}

    def save(self) -> None:
        """Write where the fits stand, unless that is on disk already."""
        if self._last is None:
            return
        title, history = self._last
        self._histories[title] = _arrays(history)
        self._write()
        self._last = None

    def finish(self) -> None:
        """Save, with the rows of all processes in the one file."""
        self.save()
        if any(shares.SEALS in arrays for arrays in self._histories.values()):
            for title, arrays in self._histories.items():
                self._histories[title] = dict(shares.joined(self._path, title, arrays))
            self._write()

    def _write(self) -> None:
        flat = {
            f"{title}/{name}": array
            for title, arrays in self._histories.items()
            for name, array in arrays.items()
        }
        sealed.save(self._path, flat)
        shares.remove_others(self._path, self._histories)
        self._saved = time.monotonic()


@final
@dataclass(frozen=True)
class _Keeper:
    """Of one fit, in shares."""

    journal: FileJournal
    title: str

    def rows(self, share: Share) -> str:
        return self.journal.write_rows(self.title, share)

    def rest(self, share: Share, seals: Sequence[str]) -> None:
        self.journal.write_rest(self.title, share, seals)


def read_histories(path: Path) -> Histories:
    histories: Histories = {}
    for name, array in sealed.load(path).items():
        title, _, field = name.partition("/")
        histories.setdefault(title, {})[field] = array
    return histories


def _arrays(history: History) -> dict[str, np.ndarray]:
    """Leaves by name; the structure comes from a fresh history of the same plan."""
    average = history.average
    numbers = {**history._asdict(), **average._asdict()}
    return {
        **{name: np.asarray(numbers[name], np.int64) for name in NUMBERS},
        "seconds": np.asarray(history.seconds),
        **{name: getattr(history, name) for name in TRACES},
        "watched": history.watched,
        **_leaves("state", history.state),
        **_leaves("older", average.older),
        **_leaves("newer", average.newer),
    }


def _axes(share: Share) -> dict[str, int]:
    """The axis of rows in those arrays that have rows, by the names that these have in a file."""
    average, axes = share.history.average, share.axes
    trees = {
        "state": axes,
        "older": None if average.older is None else axes.variables,
        "newer": None if average.newer is None else axes.variables,
    }
    named = {n: int(axis) for p, tree in trees.items() for n, axis in _leaves(p, tree).items()}
    return {name: axis for name, axis in named.items() if axis != NOWHERE}


def _leaves(prefix: str, tree: Any) -> dict[str, np.ndarray]:
    """By their path in the tree, which has the names of the parameters in it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {f"{prefix}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}


def _history(arrays: Mapping[str, np.ndarray], start: History, where: str) -> History:
    missing = [name for name in (*NUMBERS, *TRACES, *OTHERS) if name not in arrays]
    if missing:
        raise StorageError(f"{where} lacks {', '.join(missing)}; it is not a checkpoint of a run.")
    if any(arrays[name].shape != () for name in (*NUMBERS, "seconds")) or any(
        arrays[name].dtype != dtype or arrays[name].shape != arrays["elbo"].shape[:1]
        for name, dtype in TRACES.items()
    ):
        raise StorageError(f"{where} has numbers or traces of a wrong type or shape.")
    watched = arrays["watched"]
    if watched.dtype != np.float64 or watched.shape[1:] != start.watched.shape[1:]:
        raise StorageError(
            f"{where} watches other variables: shape {watched.shape}, where model and guide have "
            f"{start.watched.shape[1]}. It belongs to another model, guide or method."
        )
    numbers = {name: int(arrays[name]) for name in NUMBERS}
    if numbers["stage"] < 0:
        raise StorageError(f"{where} is at stage {numbers['stage']}.")
    variables = start.state.variables
    average = Average(
        older=_tree("older", arrays, variables, where) if numbers["older_count"] else None,
        newer=_tree("newer", arrays, variables, where) if numbers["newer_count"] else None,
        **{name: numbers[name] for name in NUMBERS if name not in STAGE},
    )
    return History(
        state=_tree("state", arrays, start.state, where),
        **{name: arrays[name] for name in TRACES},
        stage=numbers["stage"],
        stage_start=numbers["stage_start"],
        round_start=numbers["round_start"],
        settled_start=numbers["settled_start"],
        average=average,
        watched=watched,
        seconds=float(arrays["seconds"]),
    )


def _tree(prefix: str, arrays: Mapping[str, np.ndarray], like: Any, where: str) -> Any:
    """The saved leaves in the structure of `like`, if they have the same names and shapes."""
    now = _leaves(prefix, like)
    saved = {name: a for name, a in arrays.items() if name.startswith((f"{prefix}.", f"{prefix}["))}
    if _described(saved) != _described(now):
        raise StorageError(
            f"{where} does not fit the model and guide as they are now. It alone has "
            f"{_only_in(saved, now)}; they alone have {_only_in(now, saved)}. It belongs to "
            f"another model, guide, method, optimiser, precision or version of stakes: put that "
            f"back as it was, or run again."
        )
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.array(saved[name]) for name in now])


def _described(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype}{list(array.shape)}" for name, array in arrays.items()}


def _only_in(some_arrays: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> str:
    """What only one of the two has, or has in another shape or type."""
    mine, theirs = _described(some_arrays), _described(others)
    names = [name for name in mine if theirs.get(name) != mine[name]]
    # The optimiser's state repeats the names of the parameters.
    variables = [name for name in names if ".optimizer" not in name] or names
    return some(_last_key(name) + " " + mine[name] for name in variables)


def _last_key(name: str) -> str:
    """`level_auto_loc` of `state.variables['params']['level_auto_loc']`."""
    keys: list[str] = re.findall(r"\['(.*?)'\]", name)
    return keys[-1] if keys else name
