"""Words of an instruction as numbers: lower case, letters and digits, one id per known word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError

_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> list[str]:
    """The words of a text, lower case, in their order."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True)
class Vocabulary:
    """The words a model was trained on; id 0 stands for any other.

    Attributes:
        words: known words; a word's id is its place plus one.
    """

    words: tuple[str, ...]

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Vocabulary:
        """All words of some texts, sorted, so that the order of the texts plays no part."""
        return cls(tuple(sorted({word for text in texts for word in words_of(text)})))

    def encode(self, text: str) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
        """Word ids and the words that are not known.

        Returns:
            Ids of shape (words,), dtype int64, and the unknown words, each once, in their order.

        Raises:
            InputError: the text has no word at all.
        """
        words = words_of(text)
        if not words:
            raise InputError("the task text is empty: the model needs an instruction, for example 'lift the red cube'")
        unknown = tuple(dict.fromkeys(word for word in words if word not in self._ids))
        return np.array([self._ids.get(word, 0) for word in words], dtype=np.int64), unknown

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: place + 1 for place, word in enumerate(self.words)}
