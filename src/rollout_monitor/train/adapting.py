"""Fits a trained network to a user's cell: the head learns from 10 to 30 takes, the backbone stays.

Takes of other tasks (a replay) keep what the network knew; where there are none, every weight is pulled to where it
was. Folds of the takes are held out in turn, so that every figure and every threshold comes from takes that the
network which judges them has not seen.
"""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from rollout_monitor.errors import InputError
from rollout_monitor.judges import measures
from rollout_monitor.judges.bootstrap import Figure, bootstrap
from rollout_monitor.judges.measures import Answers
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.batches import Mix, Source
from rollout_monitor.train.cell_takes import CellTake, corrected, curve_by_time
from rollout_monitor.train.fitting import WHOLE, FitSettings, fit
from rollout_monitor.train.measuring import answers_of, run_on
from rollout_monitor.train.network import Network

MIN_TAKES, MIN_EACH = 10, 3
"""Fewest takes in all, and fewest successes and failures."""


@dataclass(frozen=True)
class AdaptRecipe:
    """How a network is fitted to a cell; chosen on the plans ``cell_dev_near`` and ``cell_dev_stages``.

    Attributes:
        fit: length and rate; `FitSettings.anchor` counts where there is no replay.
        mix: how sequences are made of the user's takes.
        replay: share of sequences from other tasks' takes.
        folds: of the cross-validation.
    """

    fit: FitSettings = field(default_factory=lambda: FitSettings(WHOLE, 150, 12, 32, 1e-3, weight_decay=0.01))
    mix: Mix = field(default_factory=lambda: Mix(other_task=0.2, plain=0.3, no_wrist=0.1, no_front=0.0, no_joints=0.3))
    replay: float = 0.5
    folds: int = 4


def check_takes(takes: Sequence[CellTake]) -> None:
    """Refuse takes that cannot support an adaptation.

    Raises:
        InputError: too few, or too few of one outcome; says how many are needed.
    """
    good = sum(take.success for take in takes)
    bad = len(takes) - good
    if len(takes) < MIN_TAKES:
        raise InputError(f"{len(takes)} takes are too few to adapt to: record at least {MIN_TAKES}, 20 are better")
    if min(good, bad) < MIN_EACH:
        few = "successes" if good < bad else "failures"
        raise InputError(
            f"{good} successes and {bad} failures: at least {MIN_EACH} of each are needed; record more {few} "
            "(a failure done on purpose counts, if it looks like a real one)"
        )


def adapt_network(
    base: Network,
    vocabulary: Vocabulary,
    takes: Sequence[CellTake],
    recipe: AdaptRecipe,
    replay: Sequence[Source] = (),
    report: Callable[[int, float], None] = lambda _step, _loss: None,
) -> Network:
    """A copy of the network fitted to a user's takes.

    Args:
        base: stays as it is.
        vocabulary: its words.
        takes: the user's.
        recipe: how.
        replay: takes of other tasks.
        report: called after each step.
    """
    network = copy.deepcopy(base)
    sources: list[Source] = [*takes, *replay]
    share = recipe.replay if replay else 0.0
    shares = [(1.0 - share) / len(takes)] * len(takes) + [share / max(1, len(replay))] * len(replay)
    fit(network, sources, vocabulary, recipe.fit, mix=recipe.mix, shares=shares, report=report)
    return network


def label_takes(network: Network, vocabulary: Vocabulary, takes: Sequence[CellTake]) -> list[CellTake]:
    """Takes with progress as far as it can be known: what the network sees, bent to the marks, see `corrected`."""
    labelled = []
    for take in takes:
        own = corrected(watch(network, vocabulary, take).value, take.success)
        others = [
            corrected(watch(network, vocabulary, replace(take, text=text)).value, False) for text in take.other_texts
        ]
        labelled.append(replace(take, curve=own, other_curves=others))
    return labelled


def watch(
    network: Network, vocabulary: Vocabulary, take: CellTake, path: npt.NDArray[np.int64] | None = None
) -> Answers:
    """What a network says of a user's take; its truth is time, which is no truth where the take failed.

    Args:
        network: in evaluation mode.
        vocabulary: its words.
        take: the take.
        path: frames in the order in which they are shown; None: as recorded.
    """
    frames = np.arange(take.frames) if path is None else path
    words, _ = vocabulary.encode(take.text)
    view = take.draw(np.random.default_rng(0), Mix(other_task=0.0), vocabulary)
    present = np.array([1.0, float(take.has_wrist), float(take.has_joints)], dtype=np.float32)
    said = run_on(network, view.views(frames), take.joints[frames], present, words)
    by_time = curve_by_time(take.frames, take.success)
    return answers_of(said, take.id, by_time[frames], succeeded=take.success)


def folds_of(takes: Sequence[CellTake], folds: int) -> list[list[int]]:
    """Places of the takes held out in each fold; successes and failures are spread evenly."""
    parts: list[list[int]] = [[] for _ in range(folds)]
    for outcome in (True, False):
        own = [place for place, take in enumerate(takes) if take.success is outcome]
        for turn, place in enumerate(own):
            parts[(turn + (0 if outcome else folds // 2)) % folds].append(place)
    return [sorted(part) for part in parts if part]


def there_and_back(take: CellTake) -> npt.NDArray[np.int64]:
    """A take played to its end and back to its beginning: half of it loses what the other half gained."""
    return np.concatenate([np.arange(take.frames), np.arange(take.frames - 2, -1, -1)])


@dataclass(frozen=True)
class HeldOut:
    """What networks say of takes that they have not seen.

    Attributes:
        forward: on every take as recorded.
        back: on every success, played there and back.
    """

    forward: list[Answers]
    back: list[Answers]

    def figures(self) -> dict[str, Figure]:
        """What can be known without true progress."""
        good = [answers for answers in self.forward if answers.succeeded]
        return {
            "success accuracy, by progress": bootstrap(measures.accuracy("progress"), self.forward),
            "success accuracy, by probability": bootstrap(measures.accuracy("probability"), self.forward),
            "failures called a success, by progress": bootstrap(measures.false_success("progress"), self.forward),
            "progress against time, MAE, successes": bootstrap(measures.MAE, good),
            "progress against time, Spearman, successes": bootstrap(measures.SPEARMAN, good),
            "direction Macro-F1, successes there and back": bootstrap(measures.direction_f1("progress"), self.back),
            "Falling F1, successes there and back": bootstrap(measures.direction_f1("progress", only=-1), self.back),
        }


def held_out(networks: Sequence[Network], vocabulary: Vocabulary, takes: Sequence[CellTake]) -> HeldOut:
    """Ask for each take the network given at its place."""
    forward = [watch(net, vocabulary, take) for net, take in zip(networks, takes, strict=True)]
    back = [
        watch(net, vocabulary, take, there_and_back(take))
        for net, take in zip(networks, takes, strict=True)
        if take.success
    ]
    return HeldOut(forward, back)


def cross_validate(
    base: Network,
    vocabulary: Vocabulary,
    takes: Sequence[CellTake],
    recipe: AdaptRecipe,
    replay: Sequence[Source] = (),
    *,
    jobs: int = 1,
    report: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[HeldOut, Network]:
    """Adapt once per fold, let each network judge the takes that it has not seen, and adapt to all takes.

    Args:
        base: stays as it is.
        vocabulary: its words.
        takes: the user's.
        recipe: how.
        replay: takes of other tasks.
        jobs: processes; each works on one core.
        report: called with the fits that are done and all of them.

    Returns:
        What the folds' networks say of the takes they have not seen, and the network fitted to all of them.
    """
    parts = folds_of(takes, recipe.folds)
    groups = [[take for place, take in enumerate(takes) if place not in part] for part in parts] + [list(takes)]
    fitted: list[Network] = []
    for network in _fit_all(base, vocabulary, groups, recipe, replay, jobs):
        fitted.append(network)
        report(len(fitted), len(groups))
    chosen = {place: fitted[fold] for fold, part in enumerate(parts) for place in part}
    return held_out([chosen[place] for place in range(len(takes))], vocabulary, takes), fitted[-1]


def _fit_all(
    base: Network,
    vocabulary: Vocabulary,
    groups: Sequence[Sequence[CellTake]],
    recipe: AdaptRecipe,
    replay: Sequence[Source],
    jobs: int,
) -> Iterator[Network]:
    if jobs == 1:
        yield from (adapt_network(base, vocabulary, group, recipe, replay) for group in groups)
        return
    # Not forked: a process that has used threads must not be copied.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting = [pool.submit(adapt_network, base, vocabulary, group, recipe, replay) for group in groups]
        for one in waiting:
            yield one.result()
