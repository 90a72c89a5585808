"""The backbone in eight bits: is it faster here, and what does it cost? Needs the extra [train].

    python bench/int8_backbone.py --data data/sim --model models/table [--takes 40]

Calibrated on pictures of training takes, measured on validation takes; nothing is written into the model's folder.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from rollout_monitor.frames import RgbImage
from rollout_monitor.judges.bootstrap import bootstrap
from rollout_monitor.judges.measures import MAE, accuracy, direction_f1
from rollout_monitor.prm.backbone import Backbone, prepare
from rollout_monitor.sim.tabletop.files import TAKES, read_index, read_pictures
from rollout_monitor.sim.tabletop.world import VIEWS
from rollout_monitor.train.examples import Example, cache_take
from rollout_monitor.train.exporting import load_network
from rollout_monitor.train.measuring import ask

MEASURES = {"MAE": MAE, "direction Macro-F1": direction_f1("progress"), "success accuracy": accuracy("progress")}
CALIBRATION_TAKES = 40


def pictures_of(data: Path, ids: list[str], each: int) -> list[RgbImage]:
    """A few pictures of each take and view."""
    found = []
    for name in ids:
        for view in VIEWS:
            seen = read_pictures(data / TAKES / name, view)
            found += [prepare(seen[k]) for k in np.linspace(0, len(seen) - 1, each).astype(int)]
    return found


def quantise(source: Path, target: Path, pictures: list[RgbImage]) -> None:
    """Write the network with weights and activations in eight bits (QDQ, per channel)."""

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest: Iterator[RgbImage] = iter(pictures)

        def get_next(self) -> dict[str, Any] | None:
            picture = next(self.rest, None)
            return None if picture is None else {"pictures": picture[None]}

    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(target),
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def milliseconds(backbone: Backbone, pictures: list[RgbImage]) -> tuple[float, float]:
    """Median and 90th percentile of one picture."""
    spent = []
    for picture in pictures:
        begin = time.perf_counter()
        backbone.grid([picture])
        spent.append(1000 * (time.perf_counter() - begin))
    spent = spent[len(spent) // 5 :]
    return statistics.median(spent), float(np.percentile(spent, 90))


def main() -> None:
    """Print a row for each kind of backbone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--takes", type=int, default=40)
    given = parser.parse_args()
    network, vocabulary, _ = load_network(given.model)
    rows = read_index(given.data)
    training = [row.id for row in rows if row.plan == "train"][:CALIBRATION_TAKES]
    measured = [row for row in rows if row.plan == "val"][: given.takes]
    with tempfile.TemporaryDirectory() as folder:
        quantised = Path(folder) / "int8.onnx"
        quantise(given.model / "backbone.onnx", quantised, pictures_of(given.data, training, 4))
        timed = pictures_of(given.data, [row.id for row in measured[:10]], 10)
        print("| backbone | MB | ms per picture, median (p90) | " + " | ".join(MEASURES) + " |\n|" + " --- |" * 6)
        for title, path in (("float32", given.model / "backbone.onnx"), ("int8", quantised)):
            backbone = Backbone(path)
            median, high = milliseconds(backbone, timed)
            answers = []
            for row in measured:
                cache = Path(folder) / title / row.id
                cache_take(given.data / TAKES / row.id, cache, backbone, 1)
                answers.append(ask(network, vocabulary, Example.load(given.data / TAKES / row.id, cache)))
            figures = [bootstrap(measure, answers) for measure in MEASURES.values()]
            cells = " | ".join(f"{f.value:.3f} [{f.low:.3f}, {f.high:.3f}]" for f in figures)
            print(f"| {title} | {path.stat().st_size / 1e6:.1f} | {median:.1f} ({high:.1f}) | {cells} |", flush=True)


if __name__ == "__main__":
    main()
