"""Models by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.prm import registry
from rollout_monitor.prm.files import models_folder
from rollout_monitor.prm.recorded import RecordedModel


def test_the_built_in_models_are_known() -> None:
    assert registry.names()[:2] == ("embedded", "recorded")
    assert set(registry.DESCRIPTIONS) <= set(registry.names())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelError, match=r"'gpt'; known models: embedded, recorded"):
        registry.create("gpt")


def test_options_reach_the_model_and_wrong_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    path.write_text("[0.5]", encoding="utf-8")
    model = registry.create("recorded", path=path, rate_hz=2.0)
    assert model.card.rate_hz == 2.0
    assert model.card.name == "recorded:curve.json"
    with pytest.raises(ModelError, match="flavour"):
        registry.create("recorded", path=path, flavour="sweet")


def test_the_path_of_the_embedded_model_is_its_folder(tmp_path: Path) -> None:
    folder = models_folder() / "embedded"
    assert registry.create("embedded", path=folder).card == registry.create("embedded").card
    with pytest.raises(InputError, match=rf"{tmp_path}: not the folder of an embedded model: no model.json there"):
        registry.create("embedded", path=str(tmp_path))


def test_a_model_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))
    path = tmp_path / "curve.json"
    path.write_text("[0.5]", encoding="utf-8")
    registry.register("mine", lambda: RecordedModel(path))
    assert isinstance(registry.create("mine"), RecordedModel)
    with pytest.raises(ModelError, match="already"):
        registry.register("mine", lambda: RecordedModel(path))
