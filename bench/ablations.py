"""What each part of the training is worth: small trainings that leave one thing out, measured on the test plans.

    python bench/ablations.py --data data/sim --work data/train [--takes 400] [--glance-steps 1000]

All have the same number of steps; each goes on where it was stopped. Figures are those of `rollout-monitor qualify`.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

from rollout_monitor.judges.bootstrap import bootstrap
from rollout_monitor.judges.measures import MAE, accuracy, direction_f1, false_success
from rollout_monitor.train.batches import Mix
from rollout_monitor.train.glances import SAME_WORDS
from rollout_monitor.train.moments import PER_TAKE
from rollout_monitor.train.pipeline import Recipe, train
from rollout_monitor.train.qualifying import Suite, judge

ALL = (True, True, True)
VARIANTS: dict[str, tuple[Mix, int, tuple[bool, bool, bool]]] = {
    "everything": (Mix(), PER_TAKE, ALL),
    "trained without rewinds": (Mix(rewinds=False), PER_TAKE, ALL),
    "trained without language": (Mix(language=False), PER_TAKE, ALL),
    "trained without joints": (Mix(joints=False), PER_TAKE, (True, True, False)),
    "trained with the front camera alone": (Mix(wrist=False), PER_TAKE, (True, False, True)),
    "trained without moments made anew": (Mix(), 0, ALL),
}
"""By title: how sequences are made, moments of each take, and what is there when it is measured."""

MEASURES = {
    "MAE": MAE,
    "direction Macro-F1": direction_f1("progress"),
    "Falling F1": direction_f1("progress", only=-1),
    "success accuracy": accuracy("progress"),
}


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--takes", type=int, default=400)
    parser.add_argument("--glance-steps", type=int, default=1000)
    parser.add_argument("--memory-steps", type=int, default=1000)
    parser.add_argument("--plan", default="test")
    given = parser.parse_args()
    print(
        "| variant | " + " | ".join([*MEASURES, "wrong instruction"]) + " |\n| --- |" + " --- |" * (len(MEASURES) + 1)
    )
    default = Recipe()
    for title, (mix, moments, present) in VARIANTS.items():
        recipe = replace(
            default,
            takes=given.takes,
            fresh=0,
            moments=moments,
            mix=mix,
            glance=replace(default.glance, steps=given.glance_steps),
            memory=replace(default.memory, steps=given.memory_steps),
        )
        name = f"ablation-{list(VARIANTS).index(title)}"
        if not mix.rewinds:
            shutil.copy(given.work / "ablation-0-glance.pt", given.work / f"{name}-glance.pt")  # seeing is the same
        trained = train(given.data, given.work, recipe, name=name, tell=lambda _: None)
        suite = Suite(trained.network, trained.vocabulary, trained.backbone, given.data, given.work)
        words = None if mix.language else SAME_WORDS
        judged = judge(suite.network, suite.vocabulary, suite.examples(given.plan), present=present, words=words)
        figures = [bootstrap(measure, judged.own) for measure in MEASURES.values()]
        figures.append(bootstrap(false_success("progress"), judged.others))
        cells = [f"{f.value:.3f} [{f.low:.3f}, {f.high:.3f}]" for f in figures]
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
