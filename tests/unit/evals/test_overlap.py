import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.overlap import BenchmarkQuestions, question_words, read_questions
from evals.starter import load_starter
from graph.errors import ConfigError

TAGS = (
    "When ready, output the final answer enclosed in <answer> and </answer> tags. "
    "Do not generate any content after the </answer> tag."
)
CITIBANK = "Who was president of the United States in the year that Citibank was founded?"
KONG = "Who is the mother of the director of the film Kong Returns, which was shown in every country of Europe?"
CITIES = (
    "Cities $A$ and $B$ are $45$ miles apart. Alicia bikes towards $B$ at 18 miles per hour, Beth towards $A$ at 12. "
    "How many miles from City $A$ will they be when they meet?"
)
GAME = "Using the numbers [1, 1, 1, 8], create an expression that equals 24. Each number can only be used once."
SUM = "What is 387 times 246?"


@pytest.fixture(scope="module")
def known() -> BenchmarkQuestions:
    return BenchmarkQuestions(
        {"trivia": [CITIBANK + TAGS, KONG], "maths": [CITIES, GAME, SUM, "x - 5 = 3, what is x?"]}
    )


@pytest.mark.parametrize(
    ("question", "benchmark", "how"),
    [
        (CITIBANK, "trivia", "same"),
        (CITIBANK.upper() + "\n" + TAGS, "trivia", "same"),
        (f"{CITIES}\nPlease reason step by step, and put your final answer within \\boxed{{}}.", "maths", "same"),
        (CITIES.replace("$", "").replace("45", "45.0"), "maths", None),
        (CITIES.replace("$", ""), "maths", "same"),
        (f"Answer this.\n\n{CITIBANK} Use the tools where they help, and be short.", "trivia", "contained"),
        ("Background.\n" + "Some words of a page. " * 2_000 + CITIES + " More of it." * 2_000, "maths", "contained"),
        ("Who was the president of the United states in the year Citibank was founded", "trivia", "near"),
        ("Who was presidnet of the United States in the year that Citibank was founded?", "trivia", "near"),
        (GAME.replace("1, 1, 1, 8", "8, 1, 1, 1"), "maths", "near"),
        (CITIBANK.replace("year", "yaer").replace("Who", "Woh"), "trivia", "near"),
        ("What is 387 times 246", "maths", "same"),
    ],
)  # fmt: skip
def test_the_same_question_is_found_however_it_is_dressed(
    known: BenchmarkQuestions, question: str, benchmark: str, how: str | None
) -> None:
    found = known.find(question)
    assert (found and found.how, found and found.benchmark) == (how, how and benchmark)


@pytest.mark.parametrize(
    "question",
    [
        "What is 387 times 247?",
        "What is 387 minus 246?",
        "x + 5 = 3, what is x?",
        GAME.replace("8", "7"),
        KONG.replace("Kong", "Bang"),
        KONG.replace("mother", "father"),
        CITIBANK.replace("Citibank", "Deutsche Bank"),
        CITIBANK.replace("Who", "Where"),
        "Who was president?",
        "",
        "???",
    ],
)
def test_another_question_of_the_same_template_is_not(known: BenchmarkQuestions, question: str) -> None:
    assert known.find(question) is None


def test_what_is_found_names_the_benchmarks_own_words(known: BenchmarkQuestions) -> None:
    found = known.find(CITIBANK)
    assert found is not None
    assert found.question == CITIBANK + TAGS
    assert known.find(CITIBANK) is found, "a question is looked up once"


def test_no_question_of_the_starter_set_is_another_and_each_is_found() -> None:
    questions = [sample.question for sample in load_starter("all")]
    for index, question in enumerate(questions):
        others = BenchmarkQuestions({"starter": questions[:index] + questions[index + 1 :]})
        assert others.find(question) is None, question
        assert others.find(f"{question} {TAGS}") is None, question
    every = BenchmarkQuestions({"starter": questions})
    for question in questions:
        found = every.find(f"{question}\n{TAGS}")
        assert found is not None
        assert (found.how, found.question) == ("same", question)


def test_numbers_signs_and_bullets() -> None:
    assert question_words("What is 48,917 + 7,386 - 15,428?") == ("what", "is", "48917", "+", "7386", "-", "15428")
    assert question_words("- A well-known café\n- 1,2,3") == ("a", "well", "known", "cafe", "1", "2", "3")


@given(st.text())
def test_any_text_can_be_asked_and_is_found_in_its_own_benchmark(text: str) -> None:
    found = BenchmarkQuestions({"b": [text]}).find(text)
    assert (found is not None) == bool(question_words(text))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_files_of_both_forms_are_read(tmp_path: Path) -> None:
    rows = [
        {"question": [1, 1, 1, 8], "query": GAME},
        {"question": "Why?\u2028How?", "query": "not this"},
        {"query": "q"},
    ]
    wanted = [GAME, "Why?\u2028How?", "q"]
    assert read_questions(write(tmp_path / "a.json", "\ufeff" + json.dumps(rows, indent=1))) == wanted
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    assert read_questions(write(tmp_path / "b.jsonl", lines)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"question": "a"}, {"text": "b"}]', "Entry 2 of the benchmark .* has no text"),
        ('{"question": ["a"]}', "Entry 1 of the benchmark"),
        ("[]", "holds no questions"),
        ("", "holds no questions"),
        ("{'question': 1}", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[1]", "Entry 1"),
    ],
)
def test_a_file_that_is_no_benchmark_is_refused_in_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_questions(write(tmp_path / "b.json", text))


def test_a_file_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_questions(tmp_path / "none.json")
