"""What a network on top of plain or calibrated VI adds: decisions corrected by what was missed.

Not in the paper, but in its authors' *Correcting Predictions for Approximate Bayesian Inference*
(2020). The network sees predictions for training entries that their fit has not seen; held-out
entries judge all alike.
"""

from typing import Any

import jax

from reproduce import figures, matrix, published
from reproduce.matrix import LOSSES, Effort, Matrix
from reproduce.results import Finding, PaperTable, Settings, steps_of
from stakes.protocols import Loss
from stakes.study import (
    Calibrated,
    Choice,
    Corrected,
    Network,
    Plain,
    Strategy,
    Study,
    Work,
    chosen_among,
    enter,
)
from stakes.utilities import Linearized

FOLDS = 5
COLUMNS = ("VI", "calibrated", "VI + network", "calibrated + network")


def run(settings: Settings) -> PaperTable:
    data, effort, results = matrix.start(settings, "corrections")
    chosen = dict(list(LOSSES.items())[:1]) if settings.quick else LOSSES
    network = Network(width=8, epochs=1) if settings.quick else Network()
    before: Choice | None = None
    with steps_of("corrections", len(chosen)) as tick:
        for name, loss in chosen.items():
            tick(name)
            if name not in results:
                before = _choice(data, name, loss, network, effort, before)
                results[name] = _row(before, loss, data)
    rows = {name: results[name] for name in chosen}
    figures.corrections(rows, COLUMNS, results.folder, data.note)
    return _table(rows, data)


def _choice(
    data: Matrix,
    name: str,
    loss: Loss,
    network: Network,
    effort: Effort,
    before: Choice | None,
) -> Choice:
    """All ways, in the order of `COLUMNS`; plain VI is that of a choice for another loss."""
    calibrated = Calibrated(Linearized(scale=published.scale_of(name), regret=False))
    plain = Plain()
    ways: list[Strategy] = [
        plain,
        calibrated,
        Corrected(plain, network),
        Corrected(calibrated, network),
    ]
    study = Study(
        jax.random.key(0),
        matrix.problem(loss),
        data.data,
        matrix.options(effort, effort.steps),
        folds=FOLDS,
        work=Work(before=before and before.study),
    )
    enter(study, ways)
    return chosen_among(study, ways)


def _row(choice: Choice, loss: Loss, data: Matrix) -> dict[str, Any]:
    """By way the risk of held-out entries and that in folds; and which way the folds chose."""
    titles = {score.name: title for score, title in zip(choice.scores, COLUMNS, strict=True)}
    return {
        "risk": {
            title: data.risk(loss, choice.fitted(name).decide(choice.study.home))
            for name, title in titles.items()
        },
        "in_folds": {titles[score.name]: score.risk for score in choice.scores},
        "seconds": {titles[score.name]: score.seconds for score in choice.scores},
        "chosen": titles[choice.chosen],
    }


def _table(rows: dict[str, dict[str, Any]], data: Matrix) -> PaperTable:
    lines, findings = [], list[Finding]()
    for name, row in rows.items():
        risks = [row["risk"][column] for column in COLUMNS]
        lines.append([name, *(f"{risk:.4f}" for risk in risks), row["chosen"]])
        findings += [
            Finding(
                f"{name}, {column}: reduction",
                f"{100 * (1 - row['risk'][column] / risks[0]):.1f} %",
            )
            for column in COLUMNS[2:]
        ]
    return PaperTable(
        f"Test risk on {data.name}, {data.y.shape[0]} x {data.y.shape[1]}, with and without a "
        f"network that corrects decisions",
        ["loss", *COLUMNS, f"chosen by {FOLDS} folds"],
        lines,
        findings=findings,
        caveats=data.caveats,
    )
