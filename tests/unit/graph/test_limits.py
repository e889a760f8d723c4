"""What fits into the context of the models."""

import pytest

from graph.errors import ConfigError
from graph.limits import checked_question, memory_chars, room_chars


def test_question_and_memory_fit_together():
    """With a prompt's fixed part and the answer, in the smallest context."""
    for context in (2048, 4096, 8192, 32_768):
        room = room_chars(context, 512, 4_000)
        for length in (10, room // 2):
            question = ("q " * length)[: length - 1] + "q"
            assert checked_question(question, room) == question
            assert length + memory_chars(room, question) <= max(room, 1500)


def test_an_unknown_context_is_taken_as_large():
    assert memory_chars(room_chars(None, 512, 4_000), "q") == 12_000


def test_questions_are_cleaned():
    assert checked_question(" a\x00b\ud83d \n", 10_000) == "ab\ufffd"


def test_a_question_that_does_not_fit_names_the_limit():
    with pytest.raises(ConfigError, match="has 900 characters; these models take at most 500"):
        checked_question("q " * 449 + "qq", 1_000)
    with pytest.raises(ConfigError, match="is empty"):
        checked_question(" ", 1_000)
