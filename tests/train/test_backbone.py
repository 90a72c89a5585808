"""Another frozen network: small ones of three kinds with random weights, saved to disk as a download would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra [train] is not installed (pip install 'rollout-monitor[train]')")
pytest.importorskip("onnx", reason="the extra [train] is not installed (pip install 'rollout-monitor[train]')")
pytest.importorskip(
    "transformers", reason="the extra [backbones] is not installed (pip install 'rollout-monitor[backbones]')"
)

import torch
import transformers

from rollout_monitor.errors import InputError
from rollout_monitor.prm.backbone import CELLS, CHANNELS, SIDE, Backbone
from rollout_monitor.train.backbone import FrozenBackbone, export_backbone, fit_projection, load_middle


def dinov2() -> Any:
    return transformers.Dinov2Model(
        transformers.Dinov2Config(hidden_size=96, num_hidden_layers=2, num_attention_heads=2, image_size=SIDE)
    )


def siglip() -> Any:
    vision = {
        "hidden_size": 96,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": SIDE,
    }
    text = {**vision, "vocab_size": 32, "max_position_embeddings": 8}
    return transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=vision))


def convnext() -> Any:
    return transformers.ConvNextV2Model(
        transformers.ConvNextV2Config(hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 1, 1], image_size=SIDE)
    )


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("make", [dinov2, siglip, convnext])
def test_a_named_network_becomes_a_backbone_of_the_same_shape(make: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make().save_pretrained(tmp_path / "net", safe_serialization=True)
    processor = transformers.ViTImageProcessor(image_mean=[0.4, 0.5, 0.6], image_std=[0.2, 0.2, 0.3])
    processor.save_pretrained(tmp_path / "net")
    middle = load_middle(str(tmp_path / "net"))
    assert middle.channels == 96 and middle.mean.flatten().tolist() == pytest.approx([0.4, 0.5, 0.6])
    backbone = FrozenBackbone(middle)
    pictures = np.random.default_rng(0).integers(0, 256, (8, SIDE, SIDE, 3), dtype=np.uint8)
    assert 0.5 < fit_projection(backbone, pictures) <= 1.0
    assert export_backbone(backbone, tmp_path / "backbone.onnx") <= 1e-4
    grid = Backbone(tmp_path / "backbone.onnx").grid(list(pictures))
    assert grid.shape == (8, CHANNELS, CELLS, CELLS) and np.isfinite(grid).all()


def test_the_map_keeps_where_things_are(tmp_path: Path) -> None:
    """A bright patch moves through the picture: the features that change most move with it."""
    torch.manual_seed(0)
    siglip().save_pretrained(tmp_path / "net", safe_serialization=True)
    transformers.ViTImageProcessor().save_pretrained(tmp_path / "net")
    middle = load_middle(str(tmp_path / "net"))
    plain = torch.zeros(1, 3, SIDE, SIDE)
    for row, column in ((2, 11), (9, 3)):
        marked = plain.clone()
        marked[:, :, row * 16 : row * 16 + 16, column * 16 : column * 16 + 16] = 1.0
        with torch.no_grad():
            change = (middle(marked) - middle(plain)).abs().sum(1)[0]
        assert divmod(int(change.argmax()), CELLS) == (row, column)


def test_what_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be loaded"):
        load_middle(str(tmp_path / "nothing"))
