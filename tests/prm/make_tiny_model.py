"""Makes tests/prm/data/tiny_model: an untrained model of format 2, small enough to be committed.

Needs the extra [train]; the tests that use it do not. To make it again:

    python tests/prm/make_tiny_model.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from rollout_monitor.prm.backbone import CELLS, CHANNELS, SIDE
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.exporting import OPSET, export_model
from rollout_monitor.train.network import Network, Size

FOLDER = Path(__file__).parent / "data" / "tiny_model"
SIZE = Size(word=4, task=8, cell=8, key=4, queries=3, view=8, posture=4, glance=12, state=16)
TEXTS = ("stack the red cube on the green cube", "then close the drawer")
ORDERS = {
    "ur5e": ["shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "finger_joint?"],
    "pair": ["left_elbow_joint", "right_elbow_joint"],
}
LOUDER = 1.7
"""Untrained networks say nearly the same of everything; larger weights make them differ."""


class TinyBackbone(nn.Module):  # type: ignore[misc]
    """The mean colours of 14 x 14 cells, mixed: (n, 224, 224, 3) uint8 to (n, `CHANNELS`, 14, 14)."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(SIDE // CELLS)
        self.mix = nn.Conv2d(3, CHANNELS, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return torch.tanh(self.mix(self.pool(pictures.permute(0, 3, 1, 2).float() / 255.0)))


def main() -> None:
    """Write the folder."""
    torch.manual_seed(0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        TinyBackbone().eval(),
        (torch.zeros((1, SIDE, SIDE, 3), dtype=torch.uint8),),
        str(FOLDER / "backbone.onnx"),
        input_names=["pictures"],
        output_names=["grid"],
        dynamic_axes={"pictures": {0: "n"}, "grid": {0: "n"}},
        opset_version=OPSET,
        dynamo=False,
    )
    vocabulary = Vocabulary.from_texts(TEXTS)
    network = Network(len(vocabulary.words), SIZE).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(LOUDER)
    about = {
        "name": "tiny",
        "rate_hz": 5.0,
        "memory_mb": 60.0,
        "decided_by_probability": False,
        "joint_orders": ORDERS,
    }
    export_model(network, vocabulary, FOLDER / "backbone.onnx", FOLDER, about)


if __name__ == "__main__":
    main()
