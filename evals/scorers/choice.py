"""Multiple choice: whether an answer names the right option, by its label, its text, or both."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evals.equality import same
from evals.final_answer import HEDGE, final_answer
from evals.normalise import key, plain
from evals.score import Score

_LABEL = re.compile(r"\(?([A-Za-z]|\d{1,2})(?:\)|[.:](?=\s|$))\s*")
_ANSWER = re.compile(
    r"(?:(?:the )?(?:correct )?(?:option|choice|answer)(?: is)?:? )?"
    r"(?:\((?P<inside>[A-Za-z]|\d{1,2})\)[.:]?|(?P<bare>[A-Za-z]|\d{1,2})(?P<mark>[.):]|(?= -)|$))"
    r"(?: -)?\s*(?P<text>.*)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"\((\w{1,2})\)|\b(?:option|choice|answer)s? (?:is )?\(?(\w{1,2})\b\)?", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|except|wrong|incorrect|false|rather)\b|n't\b", re.IGNORECASE)


@dataclass(frozen=True)
class _Option:
    label: str
    text: str


def choice(answer: str, accepted: Sequence[str], options: Sequence[str]) -> Score:
    """Grade an answer to a question with options.

    Options are given with their labels (`A. text`, `(A) text`, `1. text`) or without, which labels them A, B, C in
    order. An accepted answer names an option in any of the ways in which an answer may. Raises ValueError when one
    names none or several: the question is faulty.
    """
    known = _labelled(options)
    right = set()
    for reference in accepted:
        named = _named(plain(reference), known)
        if len(named) != 1:
            raise ValueError(f"the accepted answer {reference!r} does not name exactly one of the options")
        right |= named
    if not right:
        raise ValueError("a question needs at least one accepted answer to be graded")
    final = final_answer(answer)
    text = final.text
    if final.contradictory:
        return Score(value=0, answer=text, explanation="Gives different final answers.")
    chosen = _named(text, known)
    if len(chosen) == 1:
        label = known[next(iter(chosen))].label
        verdict = "an accepted one" if chosen <= right else "not an accepted one"
        return Score(value=float(chosen <= right), answer=text, explanation=f"Names option {label}, {verdict}.")
    if not chosen and len(text.split()) > 2 and not HEDGE.search(text):
        return Score(value=None, answer=text, explanation="Which option is meant is unclear.")
    explanation = "Names several options." if chosen else "Names no option."
    return Score(value=0, answer=text, explanation=explanation)


def _labelled(options: Sequence[str]) -> list[_Option]:
    matches = [_LABEL.match(plain(option)) for option in options]
    labels = [match[1].upper() if match else "" for match in matches]
    if labels in ([chr(65 + i) for i in range(len(options))], [str(i + 1) for i in range(len(options))]):
        return [
            _Option(label, plain(option)[match.end() :])
            for label, option, match in zip(labels, options, matches, strict=True)
            if match
        ]
    return [_Option(chr(65 + i), plain(option)) for i, option in enumerate(options)]


def _named(text: str, options: list[_Option]) -> set[int]:
    """Positions of the options that a text names; more than one where it contradicts itself."""
    by_text = {i for i, option in enumerate(options) if same(text, option.text)}
    if by_text:
        exact_text = {i for i in by_text if key(text) == key(options[i].text)}
        return exact_text or by_text
    match = _ANSWER.fullmatch(text)
    label = (match["inside"] or match["bare"]).upper() if match else ""
    if match and (position := next((i for i, option in enumerate(options) if option.label == label), None)) is not None:
        return _labelled_text(position, match["text"], options)
    if _NEGATION.search(text):
        return set()
    names = {(first or second).upper() for first, second in _NAMED.findall(text)}
    return {i for i, option in enumerate(options) if option.label in names}


def _labelled_text(position: int, text: str, options: list[_Option]) -> set[int]:
    """What a label with a text names: both where they contradict, none where the text belongs to neither.

    `E. coli` is no vote for option E, and half of the option's words after its label are enough.
    """
    others = {i for i, option in enumerate(options) if i != position and text and same(text, option.text)}
    said, own = set(key(text).split()), set(key(options[position].text).split())
    if others or not said or 2 * len(said & own) >= min(len(said), len(own)):
        return others | {position}
    return set()
