"""Words to ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.prm.text import Vocabulary, words_of

VOCABULARY = Vocabulary.from_texts(["Stack the red cube", "on the green cube"])


def test_words_have_an_order_and_unknown_ones_are_told() -> None:
    assert VOCABULARY.words == ("cube", "green", "on", "red", "stack", "the")
    ids, unknown = VOCABULARY.encode("Stack the RED cube, on the mug! (the mug)")
    assert ids.tolist() == [5, 6, 4, 1, 3, 6, 0, 6, 0]
    assert unknown == ("mug",)


@pytest.mark.parametrize("text", ["", "  ", "...", "\u200b"])
def test_a_text_without_words_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        VOCABULARY.encode(text)


@given(st.text())
def test_any_text_is_either_read_or_refused(text: str) -> None:
    words = words_of(text)
    if not words:
        with pytest.raises(InputError):
            VOCABULARY.encode(text)
        return
    ids, unknown = VOCABULARY.encode(text)
    assert len(ids) == len(words)
    assert set(unknown) == {word for word in words if word not in VOCABULARY.words}
