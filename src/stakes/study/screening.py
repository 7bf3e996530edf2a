"""Whether calibrated fits are worth their time: what a better posterior would save.

Calibration moves plain VI's decisions towards those of the exact posterior, or it moves them
elsewhere by luck. So what decisions under the exact posterior would save bounds what it can gain.
Draws of plain VI with its linear response, weighted towards the exact posterior, say how much that
is, where the weights can be relied on (Pareto k̂ of at most 0.7; Vehtari et al. 2024).
"""

import math
from typing import NamedTuple

from stakes.errors import InputError, NumericalError
from stakes.host.progress import waiting
from stakes.study.strategies.by_posterior import ByPosterior, LinearResponse, Plain, Reweighted
from stakes.study.study import Study
from stakes.wording import percent

LEAST_GAIN = 0.002
"""As a share of the expected cost. A comparison of a thousand outcomes cannot see less."""


class Screen(NamedTuple):
    """What calibration could gain at most.

    Attributes:
        gain: the share of the expected cost that a better posterior would save; NaN where that is
            not known.
    """

    gain: float

    @property
    def rules_out(self) -> bool:
        """Whether calibrated fits are not worth their time."""
        return self.gain < LEAST_GAIN

    def __str__(self) -> str:
        return (
            f"Calibration was not tried: decisions under draws weighted towards the exact "
            f"posterior would save {percent(max(self.gain, 0.0), 2)} of the expected cost, less "
            f"than {percent(LEAST_GAIN, 1)}. List `ways` to try it all the same."
        )


def screen(study: Study) -> Screen:
    """Compare plain VI's decisions with those of weighted draws, both on the weighted draws."""
    return study.once(screen, lambda: _screen(study))


def _screen(study: Study) -> Screen:
    home, everything = study.home, study.everything
    # A utility has no zero that a share could be of; and new members are another question.
    unclear = study.problem.loss is None or any(
        study.cases(mask).predictor is not home.predictor for mask in study.splits.masks
    )
    if unclear:
        return Screen(math.nan)
    with waiting("seeing what calibration could gain", show=study.work.progress):
        better = _exact(study)
        if better is None:
            return Screen(math.nan)
        cases, plain = home.judged(), study.fitted(Plain(), everything)
        outcomes = cases.drawn(better.posterior)
        own, least = (
            cases.mean_costs(outcomes, fitted.decide(cases))[study.seen.counted.ravel()].mean()
            for fitted in (plain, better)
        )
        gain = float((own - least) / abs(least))
        return Screen(gain if gain > -LEAST_GAIN else math.nan)


def _exact(study: Study) -> ByPosterior | None:
    """Return draws that stand for the exact posterior; None where no weights can be relied on."""
    strategy = Reweighted(LinearResponse())
    try:
        strategy.check(study)
        fitted = strategy.fit(study, study.everything)
    except (InputError, NumericalError):  # another guide, minibatches, or no optimum
        return None
    return None if fitted.diagnosis.refused else fitted
