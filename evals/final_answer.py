"""Finding the answer in what a model wrote.

An answer field usually holds nothing else. Free text is a fallback: the last `<answer>` span, else the last
`\\boxed{}`, else what follows the last "the answer is". A self-correction in a later line replaces the earlier answer;
two different answers side by side are kept together, so that no scorer takes one of them for the answer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evals.normalise import LIMIT, key, plain

_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL | re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*{")
_BETWEEN = re.compile(r"(?:text|mathrm|or|and|[\s,;/&|$\\{}().])*", re.IGNORECASE)
_MARKER = re.compile(
    r"\b(?:answer|result)(?: (?:to|of) [^\n:.]{1,80}?)?(?: is(?!n't| not\b)| was| are|:| =)+[ :]*", re.IGNORECASE
)
_CLAUSE = re.compile(r"(?<![ .][A-Z])(?<=[^\s.])[.;!](?=\s)|,? (?:because|since|as|so|which|where|but)\b")
HEDGE = re.compile(
    r"\b(?:or|either|maybe|perhaps|possibly|probably|might|may be|could be|alternatively|not sure|unsure|unclear|wait|"
    r"actually)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class FinalAnswer:
    """What is to be graded."""

    text: str
    """One line, without markup."""
    contradictory: bool = False
    """One line says "the answer is" twice, of different things: wrong, whatever the things are."""


def final_answer(text: str) -> FinalAnswer:
    """The final answer of a message, or of several joined by newlines. Never empty-handed: at worst all of the text."""
    text = _THOUGHT_END.sub("", _THOUGHT.sub("", text[-LIMIT:])).strip()
    if spans := [match.span() for match in _TAG.finditer(text)]:
        text = _last_group(text, spans, len("<answer>"), len("</answer>"))
        inner = _boxed(text)
        return FinalAnswer(_joined(text if inner is None else inner))
    if (boxed := _boxed(text)) is not None:
        return FinalAnswer(_joined(boxed))
    lines = _lines(text)
    for number, line in reversed(list(enumerate(lines))):
        claims = [line[match.end() :] for match in _MARKER.finditer(line)]
        if claims and not claims[-1].strip() and number + 1 < len(lines):
            return FinalAnswer(lines[number + 1])
        if claims and claims[-1].strip():
            if any(HEDGE.search(later) for later in lines[number + 1 :]):
                break
            return _claim(line, claims)
    return FinalAnswer(_joined(text))


def _lines(text: str) -> list[str]:
    return [line for line in map(plain, text.splitlines()) if line]


def _joined(text: str) -> str:
    """Lines stay apart: 42 above 430 is not forty-two thousand."""
    return "; ".join(_lines(text))


def _claim(line: str, claims: list[str]) -> FinalAnswer:
    """The last of the claims in a line, without its reasons unless they hedge it."""
    short = [_CLAUSE.split(claim, maxsplit=1)[0].strip() for claim in claims]
    if len({key(claim) for claim in short}) > 1:
        return FinalAnswer(line, contradictory=True)
    rest = claims[-1][len(short[-1]) :]
    return FinalAnswer(claims[-1] if HEDGE.search(rest) else short[-1])


def _boxed(text: str) -> str | None:
    spans = list(_boxes(text))
    return _last_group(text, spans, 0, 0) if spans else None


def _boxes(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of every outermost box with balanced braces, the command included."""
    closing, opened = {}, []
    for position, character in enumerate(text):
        if character == "{":
            opened.append(position)
        elif character == "}" and opened:
            closing[opened.pop()] = position + 1
    end = 0
    for match in _BOX.finditer(text):
        if match.start() >= end and match.end() - 1 in closing:
            end = closing[match.end() - 1]
            yield match.start(), end


def _last_group(text: str, spans: list[tuple[int, int]], opening: int, closing: int) -> str:
    """The last span; with it those before it on the same line from which only "or", "and" or punctuation part it."""
    first = len(spans) - 1
    while first and _BETWEEN.fullmatch(gap := text[spans[first - 1][1] : spans[first][0]]) and "\n" not in gap:
        first -= 1
    group = [text[start + opening : end - closing].strip() for start, end in spans[first:]]
    if len({key(item) for item in group}) == 1:
        return group[0]
    gaps = [text[spans[i][1] : spans[i + 1][0]] for i in range(first, len(spans) - 1)]
    word = " or " if any(re.search(r"\bor\b|/|\|", gap) or not gap.strip() for gap in gaps) else ", "
    return word.join(group)
