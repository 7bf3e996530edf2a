"""The calibrated bound as an objective for NumPyro's own SVI."""

from typing import Any, final

import jax.numpy as jnp
from numpyro.infer.elbo import ELBO

from stakes import checks
from stakes import expectation as expectations
from stakes._types import Array, Distribution, Key, Model, Params, PyTree
from stakes.bridge import Running, guide_with_decisions
from stakes.decisions import objective_of
from stakes.errors import InputError
from stakes.fitting import bound
from stakes.problem import Problem
from stakes.protocols import Estimator, Expectation, Transform
from stakes.study.options import check_kind
from stakes.utilities import Linearized

# The name of the parameter that holds the decisions.
DECISIONS = "decisions"


@final
class CalibratedELBO(ELBO):  # type: ignore[misc]
    """ELBO + Σ_i U(λ, h_i), the bound of `calibrate`, for a training loop of your own.

    Give `SVI` this objective together with its `guide`, which is the problem's with the decisions
    as one more parameter, called "decisions". The data are given as a whole, not in minibatches.

    Args:
        problem: model, outcome, loss or utility, and guide.
        scale: M, in units of the loss, such as `result.scale` of an earlier calibration; not for a
            problem that is given by a utility.
        transform: `Linearized()` by default.
        expectation: how the loss or utility is averaged over outcomes; by default the first that
            applies. For counts that are enumerated, give the number of values:
            `Enumeration(points=200)`.
        estimator: of the utility term, where the transform puts a utility inside a logarithm.
        draws: of θ at each step.
        decisions: where they start; at the median of the observed outcomes by default.

    Examples:
        >>> import jax, numpyro, numpyro.distributions as dist, optax, stakes
        >>> from numpyro.infer import SVI
        >>> def model(y=None):
        ...     mu = numpyro.sample("mu", dist.Normal(0, 5))
        ...     with numpyro.plate("row", 3):
        ...         numpyro.sample("y", dist.Normal(mu, 1), obs=y)
        >>> problem = stakes.Problem(model, outcome="y", loss=stakes.Tilted(0.2))
        >>> objective = stakes.CalibratedELBO(problem, scale=0.5)
        >>> svi = SVI(model, objective.guide, optax.adam(0.05), objective)
        >>> y = jax.numpy.array([1.0, 2.0, 4.0])
        >>> found = svi.run(jax.random.key(0), 500, y=y, progress_bar=False)
        >>> found.params["decisions"].shape
        (3,)
    """

    def __init__(
        self,
        problem: Problem,
        *,
        scale: float | None = None,
        transform: Transform | None = None,
        expectation: Expectation | None = None,
        estimator: Estimator | None = None,
        draws: int = 10,
        decisions: Array | None = None,
    ) -> None:
        where = "`CalibratedELBO({}=...)`"
        rule = "a `Problem(model, outcome=..., loss=...)`"
        checks.instance(where.format("problem"), problem, Problem, rule)
        check_kind(where, "transform", transform)
        check_kind(where, "expectation", expectation)
        check_kind(where, "estimator", estimator)
        if decisions is not None:
            decisions = jnp.asarray(checks.array(where.format("decisions"), decisions))
        if problem.utility is None:
            scale = checks.number(where.format("scale"), scale, above=0)
            transform = Linearized() if transform is None else transform
        elif scale is not None or transform is not None:
            raise InputError(
                f"`CalibratedELBO(scale=..., transform=...)` are for losses; the problem is given "
                f"by {problem.utility} already: leave them out."
            )
        if problem.task.needs or problem.action or not problem.space.is_unlimited:
            raise InputError(
                f"`CalibratedELBO(problem={problem!r})` needs decisions that may be any number, "
                f"one for each outcome, with the same loss for all. Use `calibrate(...)` instead."
            )
        super().__init__(checks.whole(where.format("draws"), draws))
        self.problem = problem
        self.guide = guide_with_decisions(problem, DECISIONS, decisions)
        self._gain = problem.gain(transform, scale)
        self._expectation, self._estimator = expectation, estimator

    def loss(
        self,
        rng_key: Key,
        param_map: Params,
        model: Model,
        guide: Model,
        *args: Any,
        **kwargs: Any,
    ) -> Array:
        """Minus the bound, by the draws that this key gives."""
        params = dict(param_map)
        if DECISIONS not in params:
            raise InputError(
                "`CalibratedELBO` needs decisions as parameters: give `SVI` the guide of the "
                "objective, `SVI(model, objective.guide, optimizer, objective)`."
            )
        running: Any = Running(model, guide, self.problem.outcome, args, kwargs)
        value, _ = bound(
            running, self._term, self.num_particles, rng_key, {}, params, params[DECISIONS]
        )
        return -value

    def loss_with_mutable_state(self, *args: PyTree, **kwargs: PyTree) -> dict[str, PyTree]:
        return {"loss": self.loss(*args, **kwargs), "mutable_state": None}

    def _term(self, key: Key, outcome: Distribution, decisions: Array) -> Array:
        chosen = self._expectation
        if chosen is None:
            chosen = expectations.choose(outcome, self._gain, decisions)
        objective = objective_of(self._gain, chosen.for_steps(), self._estimator)
        return objective.term(key, outcome, decisions)
