"""Which cases vary together: as the user says, or as the model's plates suggest.

Outcomes that share a latent, such as the effect of their store, err together, and an interval that
takes them for independent is too narrow. Without `by=`, the axes of the outcome that cross are
taken, and plates with ten members or more whose latents are shared by outcomes, at most two of
them.
"""

from typing import Any, TypeAlias

import numpy as np

from stakes import checks
from stakes.bridge import Predictor, groups_of
from stakes.errors import InputError, some
from stakes.port import Instances
from stakes.study.intervals import (
    FEWEST,
    GIVEN,
    Clustered,
    Crossed,
    Dependence,
    Independent,
    Ordered,
    number_labels,
)

# A name, labels, a pair of these, a `Dependence`, or None.
By: TypeAlias = Any
# Members of a plate that stand for more of their kind. Fewer, such as weekdays, are all there are,
# and no reason to take their outcomes together.
ENOUGH = 10
WHERE = "`by=`"
RULE = (
    "the name of a plate or of an argument along the outcome, an array with a label for each "
    "case, a pair of these, or a value such as `stakes.Ordered()`"
)
# A name, and the number of the group of each case, in one dimension.
Groups: TypeAlias = tuple[str, np.ndarray]


def dependence_of(by: By, predictor: Predictor, counted: np.ndarray | None = None) -> Dependence:
    """Return which of these cases vary together.

    Args:
        by: as in `Calibration.compare`.
        predictor: the model on these cases.
        counted: which cases count, in the outcome's shape; all of them where left out.
    """
    checks.instance("`predictor`", predictor, Predictor, "what `Predictors(...).on()` returns")
    found = _all_together(by, predictor)
    if counted is None:
        return found
    if np.shape(counted) != predictor.trace.instances.shape or np.asarray(counted).dtype != bool:
        rule = f"a truth value for each case, of shape {predictor.trace.instances.shape}"
        raise checks.refused("`counted=`", rule, counted)
    return found.among(np.asarray(counted))


def _all_together(by: By, predictor: Predictor) -> Dependence:
    """Return the dependence of all cases: a value of the user, or clusters."""
    instances = predictor.trace.instances
    if by is None:
        return _clustered(_by_plates(predictor))
    if hasattr(by, "interval") and not isinstance(by, type):
        return _checked(by, instances)
    if isinstance(by, tuple | list) and len(by) == 2 and all(map(_is_part, by)):
        return _clustered([_part(each, predictor) for each in by])
    if _is_part(by):
        return _clustered([_part(by, predictor)])
    raise checks.refused(WHERE, RULE, by)


def _is_part(value: Any) -> bool:
    """Return whether a value may be a name or labels."""
    if isinstance(value, str):
        return True
    return checks.is_many(value) and not isinstance(value, type) and np.ndim(value) > 0


def _part(by: Any, predictor: Predictor) -> Groups:
    """Return the groups that a name or labels stand for."""
    return _named(by, predictor) if isinstance(by, str) else _labelled(by, predictor)


def _clustered(groups: list[Groups]) -> Dependence:
    """Return the dependence by no, one or two kinds of groups.

    Args:
        groups: none for independent cases, one kind for clusters, two for crossed ones.
    """
    match groups:
        case []:
            return Independent()
        case [(name, numbers)]:
            return Clustered(numbers, name)
        case [(name, numbers), (other, others)]:
            return Crossed((numbers, others), (name, other))
    raise AssertionError(groups)


def _checked(by: Dependence, instances: Instances) -> Dependence:
    """Return the dependence, or refuse one that is about other cases than these.

    Args:
        by: a value of the user.
        instances: the shape of the cases, and the names of its axes.
    """
    checks.choice(WHERE, by, Dependence, "one such as `stakes.Ordered()`", hashable=False)
    if isinstance(by, Ordered) and len(instances.shape) != 1:
        raise InputError(
            f"`by=Ordered()` needs outcomes along one axis, in order of time; there is one for "
            f"each {' x '.join(instances.dims) or 'model'}. Name a plate instead: `by=...`."
        )
    size = int(np.prod(instances.shape))
    if by.size not in (None, size):
        raise InputError(f"{WHERE} has {by.size} labels for {size} cases.")
    return by


def _named(name: str, predictor: Predictor) -> Groups:
    """Return the groups of a name.

    The name is that of a plate of the outcome, of an argument along it, or of another plate, if the
    model shows to which of its members each outcome belongs.
    """
    cases, instances = predictor.trace, predictor.trace.instances
    if name in instances.dims:
        return name, _axis(instances, instances.dims.index(name))
    given = {**cases.constants, **predictor.arrays}
    columns = {n: v for n, v in given.items() if n != cases.observed and _fits(v, instances)}
    if name in columns:
        return name, number_labels(WHERE, _spread(name, columns[name], instances))
    if name in cases.plates:
        found = groups_of(predictor)
        if name in found:
            return name, found[name].ravel()
        raise InputError(
            f"`by={name!r}`: the model does not show to which member of the plate {name!r} each "
            f"outcome belongs. Give an array with a label for each case instead."
        )
    if name in given and name != cases.observed:
        raise InputError(
            f"`by={name!r}`: that data argument has shape {np.shape(given[name])}, and outcomes "
            f"have shape {instances.shape}. Give a group for each outcome, or for each member of "
            f"one of its plates."
        )
    known = dict.fromkeys((*instances.dims, *cases.plates, *columns))
    raise InputError(
        f"`by={name!r}` names no plate of the model and no argument along the outcome; there are "
        f"{some(known)}. Labels of your own can be given as an array."
    )


def _labelled(labels: Any, predictor: Predictor) -> Groups:
    """Return the groups that labels make.

    Args:
        labels: one for each case, or for each member of one axis; a named column gives them its
            name.
        predictor: the model on the cases.
    """
    instances = predictor.trace.instances
    if not _fits(labels, instances):
        raise InputError(
            f"{WHERE} has labels of shape {np.shape(labels)} for cases of shape "
            f"{instances.shape}. Give a label for each case, or for each member of one plate "
            f"of the outcome."
        )
    name = getattr(labels, "name", None)
    name = name if isinstance(name, str) else GIVEN
    return name, number_labels(WHERE, _spread(name, labels, instances))


def _fits(values: Any, instances: Instances) -> bool:
    """Return whether there is a value for each case, or for each member of an axis."""
    shape = np.shape(values)
    return bool(shape) and (
        shape == instances.shape or (len(shape) == 1 and shape[0] in instances.shape)
    )


def _spread(name: str, values: Any, instances: Instances) -> np.ndarray:
    """Return a value for each case, in one dimension.

    Args:
        name: of the values, for the message.
        values: one for each case, or for each member of one axis.
        instances: the shape of the cases, and the names of its axes.
    """
    values = np.asarray(values)
    if values.shape == instances.shape:
        return np.asarray(values.ravel())
    axes = [axis for axis, size in enumerate(instances.shape) if size == len(values)]
    if len(axes) > 1:
        raise InputError(
            f"{WHERE}: {name} may belong to either of {some(instances.dims)}, which have as many "
            f"members. Give a label for each case, in the shape {instances.shape}."
        )
    return np.asarray(values[_axis(instances, axes[0])])


def _axis(instances: Instances, axis: int) -> np.ndarray:
    """Return for each case its number along one axis."""
    return np.asarray(np.indices(instances.shape)[axis].ravel())


def _by_plates(predictor: Predictor) -> list[Groups]:
    """Return the groups that the model suggests, two at most, those with the fewest members.

    They are the axes of the outcome, where there are several, and plates such as that of
    `effect[county]`. A plate within another one, such as shops within towns, says nothing more and
    is left out.
    """
    instances = predictor.trace.instances
    found = {plate: at.ravel() for plate, at in groups_of(predictor, least=ENOUGH).items()}
    least = dict.fromkeys(found, ENOUGH)
    if len(instances.shape) > 1:
        own = {dim: _axis(instances, axis) for axis, dim in enumerate(instances.dims)}
        found, least = own | found, dict.fromkeys(own, FEWEST) | least
    counts = {plate: len(np.unique(at)) for plate, at in found.items()}
    size, chosen = int(np.prod(instances.shape)), list[Groups]()
    for plate in sorted(counts, key=lambda plate: counts[plate]):
        enough = least[plate] <= counts[plate] < size
        if enough and not any(_is_within(found[plate], at) for _, at in chosen):
            chosen.append((plate, found[plate]))
    return chosen[:2]


def _is_within(fine: np.ndarray, coarse: np.ndarray) -> bool:
    """Return whether each group of the one lies in one group of the other."""
    pairs = np.unique(fine * (coarse.max() + 1) + coarse)
    return len(pairs) == len(np.unique(fine))
