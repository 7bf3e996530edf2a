"""Estimators of log ũ(θ, h) = log E_y u(y, h), for one draw of θ and each instance.

Every estimator of the paper is a mean over draws of θ, so each is written here for one draw; the
caller averages over draws, masks, and sums over instances.
"""

from dataclasses import dataclass
from typing import final

from stakes import checks
from stakes._types import Array, Distribution, Key
from stakes.protocols import Estimator, Expectation, PositiveUtility, UtilityTerm


@final
@dataclass(frozen=True)
class Nested:
    """log E_y u (eq. 6); exact with an exact expectation, biased low with draws of y.

    Examples:
        >>> import jax, numpyro.distributions as dist, stakes
        >>> utility = stakes.ExpUtility(stakes.Squared(), scale=2.0)
        >>> term = stakes.Nested().term(utility, stakes.ClosedForm())
        >>> round(float(term(jax.random.key(0), dist.Normal(0.0, 1.0), 0.0)), 4)  # -log(2) / 2
        -0.3466
    """

    def term(self, utility: PositiveUtility, expectation: Expectation) -> UtilityTerm:
        _check(self, utility, expectation)

        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            return expectation.log_expected(key, outcome, utility, decision)

        return term


@final
@dataclass(frozen=True)
class Jensen:
    """E_y log u: the bound that Jensen's inequality gives, below `Nested`.

    Examples:
        >>> import jax, numpyro.distributions as dist, stakes
        >>> utility = stakes.ExpUtility(stakes.Squared(), scale=2.0)
        >>> term = stakes.Jensen().term(utility, stakes.ClosedForm())
        >>> float(term(jax.random.key(0), dist.Normal(0.0, 1.0), 0.0))
        -0.5
    """

    def term(self, utility: PositiveUtility, expectation: Expectation) -> UtilityTerm:
        _check(self, utility, expectation)

        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            return utility.expected_log(expectation, key, outcome, decision)

        return term


@final
@dataclass(frozen=True)
class Taylor:
    """`Nested` plus the second-order Taylor correction of its bias, Var(ū) / 2ū².

    With an exact expectation there is no bias to correct, and it equals `Nested`.

    Examples:
        >>> import jax, numpyro.distributions as dist, stakes
        >>> utility, key = stakes.ExpUtility(stakes.Squared(), scale=2.0), jax.random.key(0)
        >>> nested, taylor = (
        ...     estimator.term(utility, stakes.MonteCarlo(draws=5))(key, dist.Normal(0.0, 1.0), 0.0)
        ...     for estimator in (stakes.Nested(), stakes.Taylor())
        ... )
        >>> bool(taylor > nested)
        True
    """

    def term(self, utility: PositiveUtility, expectation: Expectation) -> UtilityTerm:
        _check(self, utility, expectation)

        def term(key: Key, outcome: Distribution, decision: Array) -> Array:
            nested = expectation.log_expected(key, outcome, utility, decision)
            return nested + expectation.relative_variance(key, outcome, utility, decision) / 2

        return term


def _check(estimator: Estimator, utility: PositiveUtility, expectation: Expectation) -> None:
    where, known = f"`{estimator}.term({{}}=...)`", "`Utility(fn)` or `ExpUtility(loss, scale)`"
    # A utility on a scale that is being traced has no hash.
    checks.choice(where.format("utility"), utility, PositiveUtility, known, hashable=False)
    known = "one such as `Quadrature()`"
    checks.choice(where.format("expectation"), expectation, Expectation, known, hashable=False)
