"""The embedded model on public recordings of a domain it never saw: how well it agrees with published judges.

    python bench/real_videos.py --data FOLDER [--model FOLDER] [--rate 5]

FOLDER holds ``prm_as_a_judge_demos`` (rollouts with a published judge's curve and the outcome),
``robo_dopamine_episode_001`` (a bimanual episode with subtask boundaries) and ``robometer_examples`` (videos with
another judge's progress). Nothing is tuned on them.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from rollout_monitor.cli.scoring import score_videos
from rollout_monitor.prm.embedded import EmbeddedModel

Floats = npt.NDArray[np.float64]


def spearman(a: Floats, b: Floats) -> float:
    """Rank correlation; NaN where one of them does not change."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def auc(values: Floats, good: npt.NDArray[np.bool_]) -> float:
    """Chance that a success has the larger value than a failure; ties count half."""
    pairs = values[good][:, None] - values[~good][None]
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def judged(model: EmbeddedModel, video: Path, task: str, rate_hz: float) -> tuple[Floats, Floats, Floats]:
    """Seconds, progress and success probability of one video."""
    (curve,) = score_videos(model, [video], task, rate_hz, 1)
    if curve.trouble:
        raise SystemExit(f"{video}: {curve.trouble}")
    rows = [(stamp / 1e9, one.progress, one.success_probability) for stamp, one in curve.points]
    seconds, progress, success = np.array(rows, dtype=np.float64).T
    return seconds, progress, success


def at_shares(seconds: Floats, values: Floats, count: int) -> Floats:
    """Values at ``count`` evenly spread moments, the last one the end."""
    return np.interp(np.linspace(0, seconds[-1], count + 1)[1:], seconds, values)


def demos(model: EmbeddedModel, folder: Path, rate_hz: float) -> None:
    """Ten rollouts with a published curve and the outcome."""
    print("| rollout | outcome | published judge, end | embedded, end | Spearman with the published curve |")
    print("| --- | --- | --- | --- | --- |")
    ends, theirs, chances, good, agree = [], [], [], [], []
    for table in sorted(folder.glob("*/*/step_metrics.csv")):
        rows = list(csv.DictReader(table.open(encoding="utf-8")))
        published = np.array([float(row["StepProgress"]) for row in rows])
        task = table.with_name("task.txt").read_text(encoding="utf-8").strip()
        seconds, progress, success = judged(model, table.with_name("episode.mp4"), task, rate_hz)
        agree.append(spearman(at_shares(seconds, progress, len(published)), published))
        good.append(rows[-1]["EpisodeSuccess"] == "1")
        ends.append(float(np.median(progress[seconds >= seconds[-1] - 1.0])))
        chances.append(float(np.median(success[seconds >= seconds[-1] - 1.0])))
        theirs.append(published[-1])
        outcome = "success" if good[-1] else "failure"
        print(f"| {table.parent.name} | {outcome} | {published[-1]:.2f} | {ends[-1]:.2f} | {agree[-1]:.2f} |")
    marks = np.array(good)
    print(
        f"\nmedian Spearman {np.nanmedian(agree):.2f}; {marks.sum()} successes, {(~marks).sum()} failures; success AUC:"
    )
    print(f"end progress {auc(np.array(ends), marks):.2f}, success probability {auc(np.array(chances), marks):.2f}, ")
    print(f"the published judge's end progress {auc(np.array(theirs), marks):.2f}\n")


def bimanual(model: EmbeddedModel, folder: Path, rate_hz: float) -> None:
    """A real episode with the ends of its subtasks."""
    marks = json.loads((folder / "annotated_keyframes.json").read_text(encoding="utf-8"))
    task = str(json.loads((folder / "task_instruction.json").read_text(encoding="utf-8"))[0])
    seconds, progress, _ = judged(model, folder / "cam_high.mp4", task, rate_hz)
    ends = np.array([np.interp(mark["end_frame_id"] / 30.0, seconds, progress) for mark in marks])
    rising = float((np.diff(ends) > 0).mean())
    print(f"bimanual episode: Spearman of progress at the ends of {len(ends)} subtasks with their order ")
    print(f"{spearman(ends, np.arange(len(ends), dtype=np.float64)):.2f}, rising from one to the next {rising:.0%}\n")


def robometer(model: EmbeddedModel, folder: Path, rate_hz: float) -> None:
    """Two short real videos with another judge's progress."""
    for video, table, task in (
        ("jaco_play_pick_up_green_cup.mp4", "pick_up_green_cup_rewards.npy", "pick up the green cup"),
        (
            "soar_put_green_stick_in_brown_bowl.mp4",
            "soar_put_green_stick_in_brown_bowl_rewards.npy",
            "put the green stick in the brown bowl",
        ),
    ):
        theirs = np.load(folder / table, allow_pickle=False).astype(np.float64).ravel()
        seconds, progress, _ = judged(model, folder / video, task, rate_hz)
        found = spearman(at_shares(seconds, progress, len(theirs)), theirs)
        print(f"{task}: ends at {progress[-1]:.2f}, the published judge at {theirs[-1]:.2f}; Spearman {found:.2f}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--rate", type=float, default=5.0)
    given = parser.parse_args()
    model = EmbeddedModel(given.model)
    demos(model, given.data / "prm_as_a_judge_demos", given.rate)
    bimanual(model, given.data / "robo_dopamine_episode_001", given.rate)
    robometer(model, given.data / "robometer_examples", given.rate)


if __name__ == "__main__":
    main()
