"""Choosing the parts of a text that matter."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graph.corpus.passages import best_passages

FILLER = "Nothing of interest is said in this sentence about cabbages. " * 8
TEXT = "\n\n".join(
    [FILLER] * 5
    + ["The bridge was opened in 1932. It spans the harbour."]
    + [FILLER] * 5
    + ["Its designer was John Bradfield."]
    + [FILLER] * 5
)


def test_short_text_comes_back_whole() -> None:
    assert best_passages("  A short text.\n", "anything", budget_chars=100) == ["A short text."]
    assert best_passages(" \n ", "anything", budget_chars=100) == []


def test_passages_that_matter_are_chosen_in_the_text_s_order() -> None:
    passages = best_passages(TEXT, "who was the designer of the bridge", budget_chars=500)
    joined = " | ".join(passages)
    assert joined.index("1932") < joined.index("Bradfield")


def test_question_without_a_known_word_gets_the_beginning() -> None:
    (passage,) = best_passages("First words. " + TEXT, "zyxwv", budget_chars=300)
    assert passage.startswith("First words.")


def test_one_endless_line_is_cut_between_words() -> None:
    passages = best_passages("lorem " * 3000 + "needle " + "ipsum " * 3000, "needle", budget_chars=600)
    assert "needle" in " ".join(passages)
    assert all(word in {"lorem", "needle", "ipsum"} for word in " ".join(passages).split())


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=3000), query=st.text(max_size=60), budget=st.integers(20, 1500))
def test_budget_holds_for_any_text(text: str, query: str, budget: int) -> None:
    passages = best_passages(text, query, budget_chars=budget)
    assert sum(map(len, passages)) <= budget
    assert bool(passages) == bool(text.strip())
