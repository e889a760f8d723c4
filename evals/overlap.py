"""Whether a question is one of a benchmark's: trained on, it would make the benchmark's score worthless.

Questions are compared word by word, after typography, LaTeX, case, accents, punctuation and trailing instructions
("output the final answer enclosed in …") are taken away. Three kinds count: the same words; a benchmark's question
within a longer prompt; and nearly the same characters, where numbers and telling words agree, as templates of
arithmetic or of "the mother of the director of …" make many questions that differ in nothing else.
"""

import hashlib
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evals.normalise import LIMIT, plain
from graph.errors import ConfigError

_SHORTEST = 6
"""Words of a question that is looked for within longer ones: "What is it?" is in many."""
_NEAR = 85
"""Per cent of characters that two questions have in common, in order, to be near."""
_SPELLING = 80
"""The same for two spellings or forms of a word."""
_MOST_NEAR = 10

_PIECE = re.compile(rf".{{1,{LIMIT - 1}}}(?:\s|\Z)|.{{1,{LIMIT}}}", re.DOTALL)
_BULLET = re.compile(r"^\s*[-*+\u2022]\s+", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.?!])\s*(?=[A-Z])|\n+")
_INSTRUCTION = re.compile(
    r"</?answer>|\\boxed|final answer|step[- ]by[- ]step|correct option|when ready,|do not generate", re.IGNORECASE
)
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+|[-+*/^=<>%]")
_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d,])")
_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_SILENT = frozenset(
    """
    a an and are as at be been by did do does for from had has have in is it its of on or please that the this to was
    were what which with
    """.split()  # noqa: SIM905 - as a literal it would take a line a word
)
"""Words that may differ between near questions. Not "who", "when" and "where": they ask for other things."""


@dataclass(frozen=True)
class Overlap:
    """A benchmark's question that was found in another."""

    benchmark: str
    question: str
    """The benchmark's, as it was given."""
    how: Literal["same", "contained", "near"]


@dataclass(frozen=True)
class _Known:
    benchmark: str
    question: str
    words: tuple[str, ...]

    def as_overlap(self, how: Literal["same", "contained", "near"]) -> Overlap:
        return Overlap(self.benchmark, self.question, how)


class BenchmarkQuestions:
    """The questions of some benchmarks, to be asked question by question. Each distinct one is looked up once."""

    def __init__(self, benchmarks: Mapping[str, Iterable[str]]) -> None:
        """`benchmarks` are the questions by the name of their benchmark."""
        from rapidfuzz import fuzz, process  # here, as who only reads a benchmark needs none of it

        self._fuzz, self._process = fuzz, process
        self._same: dict[tuple[str, ...], _Known] = {}
        self._starts: dict[tuple[str, ...], list[_Known]] = defaultdict(list)
        self._by_numbers: dict[tuple[str, ...], dict[str, _Known]] = defaultdict(dict)
        self._found: dict[bytes, Overlap | None] = {}
        self.sizes = dict.fromkeys(benchmarks, 0)
        """How many different questions each benchmark brought."""
        for name, questions in benchmarks.items():
            for question in questions:
                self._add(_Known(name, question, question_words(question)))

    def _add(self, known: _Known) -> None:
        if not known.words or known.words in self._same:
            return
        self._same[known.words] = known
        self.sizes[known.benchmark] += 1
        if len(known.words) >= _SHORTEST:
            self._starts[known.words[:_SHORTEST]].append(known)
        self._by_numbers[_numbers(known.words)][" ".join(known.words)] = known

    def find(self, question: str) -> Overlap | None:
        """Return the benchmark's question that this one is, holds or nearly is; None where there is none."""
        key = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key not in self._found:
            words = question_words(question)
            self._found[key] = self._equal(words) or self._within(words) or self._near(words)
        return self._found[key]

    def _equal(self, words: tuple[str, ...]) -> Overlap | None:
        known = self._same.get(words)
        return known.as_overlap("same") if known else None

    def _within(self, words: tuple[str, ...]) -> Overlap | None:
        for start in range(len(words) - _SHORTEST + 1):
            for known in self._starts.get(words[start : start + _SHORTEST], ()):
                if words[start : start + len(known.words)] == known.words:
                    return known.as_overlap("contained")
        return None

    def _near(self, words: tuple[str, ...]) -> Overlap | None:
        candidates = self._by_numbers.get(_numbers(words))
        if not candidates:
            return None
        found = self._process.extract(
            " ".join(words), candidates.keys(), scorer=self._fuzz.ratio, score_cutoff=_NEAR, limit=_MOST_NEAR
        )
        known = (candidates[text] for text, _, _ in found)
        return next((each.as_overlap("near") for each in known if self._agree(words, each.words)), None)

    def _agree(self, words: Sequence[str], others: Sequence[str]) -> bool:
        """Whether no telling word of the one has another in its place in the other."""
        mine, theirs = Counter(words) - Counter(others), Counter(others) - Counter(words)
        left = [word for word in mine if word not in _SILENT and not self._has_spelling(word, theirs)]
        right = [word for word in theirs if word not in _SILENT and not self._has_spelling(word, mine)]
        return not (left and right)

    def _has_spelling(self, word: str, others: Iterable[str]) -> bool:
        """Whether one of the others is a form of the word, or the same letters in disorder."""
        letters = sorted(word)
        return any(self._fuzz.ratio(word, other) >= _SPELLING or sorted(other) == letters for other in others)


def question_words(question: str) -> tuple[str, ...]:
    """Return what makes a question the same as another: its words, numbers, and signs beside these."""
    kept = _BULLET.sub("", _without_instructions(question))
    text = " ".join(plain(piece) for piece in _PIECE.findall(kept)).casefold()
    text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    text = _GROUPED.sub(lambda found: found[0].replace(",", ""), _APOSTROPHE.sub("", text))
    tokens = _TOKEN.findall(text)
    around = [None, *tokens, None]
    return tuple(
        token
        for before, token, after in zip(around, tokens, around[2:], strict=False)
        if token[0].isalnum() or _is_operand(before) or _is_operand(after)
    )


def read_questions(path: Path) -> list[str]:
    """Return the questions of a benchmark's file: a JSON array of objects, or an object a line.

    The question is the text in `question`, or in `query` where that is missing or no text.

    Raises:
        ConfigError: the file cannot be read, or an entry has no question.
    """
    try:
        text = path.read_text("utf-8-sig").strip()
        rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.split("\n") if line]
    except OSError as error:
        raise ConfigError(f"The benchmark {path} cannot be read ({error.strerror}): give another file.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The benchmark {path} is no JSON ({error}): give an array of objects, or an object a line."
        ) from error
    if not rows:
        raise ConfigError(f"The benchmark {path} holds no questions: give another file.")
    questions = []
    for number, row in enumerate(rows, 1):
        if (question := _question_of(row)) is None:
            raise ConfigError(f"Entry {number} of the benchmark {path} has no text in question or query: name it so.")
        questions.append(question)
    return questions


def _question_of(row: Any) -> str | None:
    fields = row if isinstance(row, dict) else {}
    found = (fields.get(name) for name in ("question", "query"))
    return next((text for text in found if isinstance(text, str) and text.strip()), None)


def _without_instructions(question: str) -> str:
    sentences = _SENTENCE.split(question)
    kept = list(sentences)
    while len(kept) > 1 and (_INSTRUCTION.search(kept[-1]) or not kept[-1].strip()):
        kept.pop()
    return " \n".join(kept)


def _numbers(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(word for word in words if not word[0].isalpha()))


def _is_operand(token: str | None) -> bool:
    return token is not None and (token[0].isdigit() or (len(token) == 1 and token.isalpha()))
