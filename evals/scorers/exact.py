"""Right or wrong by value: numbers with units, dates, lists, short texts.

A wrong answer is never right, whatever it looks like; a right one is right in any usual spelling. A sentence is right
where it states the reference plainly, and ungraded where it mentions the reference and this scorer cannot tell what is
claimed.
"""

import re
from collections.abc import Sequence

from evals.dates import mentioned_dates, read_date, without_dates
from evals.equality import reference_number, same
from evals.final_answer import HEDGE, final_answer
from evals.normalise import key, plain
from evals.quantity import Quantity, equal, mentioned, quantity
from evals.score import Score

_SENTENCE = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|takes?|took|costs?|equals?|gives?|i|we|you)\b|=|: ", re.IGNORECASE
)
_WORDS = 7
"""A text of so many words is a sentence even without one of these verbs."""
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|except|instead|rather|wrong|incorrect|false|unless|besides)\b|n't\b", re.IGNORECASE
)
_DENIED = re.compile(r"(?:\bnot|n't) (\S.*)", re.IGNORECASE)
_STATED = re.compile(
    r".*(?:\b(?:is|are|was|were|be|equals?|totals?|called|named|on an?)\b|=|: )\s*"
    r"(?:equal to |called |named |on |in )?(\S.*)",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"(\S.{0,200}?) (?:is|are|was|were) (?:the|an?|where|who|what)\b", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:there (?:is|are|were)|is|are|was|were|has|have|takes?|took|costs?|equals?|contains?|get) $", re.IGNORECASE
)
_MEASURED = re.compile(r"([^\d(]*[^\d\s(,:])[,:]? \(?(\d[\d,.]* ?[^\W\d_]+)\)?")
"""A name with its measure: `Nevado Sajama, 6,542 m`."""
_ASIDE = re.compile(r"([^()]*[^()\s]) ?\(([^()]*)\)[ .]*")


def exact(answer: str, accepted: Sequence[str]) -> Score:
    """Grade an answer against the accepted ones, each of which alone is right.

    Raises ValueError when nothing is accepted.
    """
    if not accepted:
        raise ValueError("a question needs at least one accepted answer to be graded")
    final = final_answer(answer)
    text = final.text
    if not text:
        return Score(value=0, answer="", explanation="No answer was given.")
    if final.contradictory:
        return Score(value=0, answer=text, explanation="Gives different final answers.")
    verdicts = [_verdict(text, reference, accepted) for reference in accepted]
    if True in verdicts:
        reference = accepted[verdicts.index(True)]
        return Score(value=1, answer=text, explanation=f"States the accepted answer {reference!r}.")
    if None in verdicts:
        reference = accepted[verdicts.index(None)]
        return Score(value=None, answer=text, explanation=f"Mentions {reference!r}, but what it claims is unclear.")
    return Score(value=0, answer=text, explanation=f"States none of the accepted answers, such as {accepted[0]!r}.")


def _verdict(text: str, reference: str, accepted: Sequence[str]) -> bool | None:
    verdict = same(text, reference)
    if verdict is not False:
        return verdict
    if key(reference) in ("yes", "no"):
        return _yes_or_no(text) == key(reference)
    if (
        (match := _MEASURED.fullmatch(text))
        and same(match[1], reference)
        and (found := quantity(match[2]))
        and found.unit
    ):
        return True
    if match := _ASIDE.fullmatch(text):
        return _with_aside(match[1], match[2], reference, accepted)
    if len(text.split()) >= _WORDS or _SENTENCE.search(text) or read_date(plain(reference)):
        return _sentence(text, reference)
    return False


def _yes_or_no(text: str) -> str | None:
    """What the first word of a text says; None where it is neither, or the other word follows."""
    words = re.findall(r"\w+", key(text))
    said = [word for word in words if word in ("yes", "no")]
    return words[0] if words and words[0] in ("yes", "no") and len(set(said)) == 1 and not HEDGE.search(text) else None


def _with_aside(text: str, aside: str, reference: str, accepted: Sequence[str]) -> bool | None:
    """An answer with something in brackets after it: the same again, a translation, or a condition that changes it."""
    if not same(text, reference):
        return None if same(aside, reference) else _sentence(text, reference) if _SENTENCE.search(text) else False
    if HEDGE.search(aside) or _NEGATION.search(aside):
        return False
    if any(same(aside, other) for other in accepted):
        return True
    main = quantity(plain(reference))
    if main is None:
        # "24 May 1883 (Thursday)" is clear; "Paris (Texas)" may be another Paris
        return True if read_date(plain(reference)) and not mentioned(aside) else None
    others = [other for other in mentioned(aside) if not equal(other, main)]
    own = quantity(text)
    if not others or not own or not own.unit:
        return not others
    # "180.3 cm (5 ft 11 in)" says it in other units; "508 minutes (8 hours 28 minutes)" may, but in its own as well
    return True if all(other.unit not in ("", own.unit) for other in others) else _other_units(others, own.unit)


def _other_units(others: list[Quantity], own: str) -> bool | None:
    return None if any(other.unit not in ("", own) for other in others) else False


def _sentence(text: str, reference: str) -> bool | None:
    """What a sentence says of the reference: True where it plainly states it, None where it mentions it otherwise."""
    hedged = HEDGE.search(text) is not None or text.endswith("?")
    if (match := _DENIED.search(text)) and same(match[1], reference):
        return False
    if not hedged and not _NEGATION.search(text) and _states(text, reference):
        return True
    return None if not hedged and _mentions(text, reference) else False


def _states(text: str, reference: str) -> bool:
    """Whether a sentence without hedge or denial says the reference where a sentence says its answer."""
    if (match := _STATED.fullmatch(text)) and same(match[1], reference):
        return True
    if read_date(plain(reference)):
        match = re.fullmatch(r".*\bon (\S.*)", text)
        return match is not None and same(match[1], reference) is True
    number = quantity(plain(reference))
    if (match := _SUBJECT.match(text)) and same(match[1], reference):
        return number is None or not mentioned(text[match.end() :])
    return number is not None and _states_number(without_dates(text), number)


def _states_number(text: str, number: Quantity) -> bool:
    """Whether the one number of a sentence is the reference and a verb states it: "there are 5 of them"."""
    found = mentioned(text)
    if len({(other.value, other.percent) for other in found}) != 1 or not equal(found[0], number):
        return False
    first = re.search(r"[-+$€£¥]*[\d.]*\d", text)
    return first is not None and _VERB.search(text[: first.start()]) is not None


def _mentions(text: str, reference: str) -> bool:
    if dates := read_date(plain(reference)):
        return not dates.isdisjoint(mentioned_dates(text))
    if (number := reference_number(plain(reference))) is not None:
        return any(equal(other, number) for other in mentioned(text))
    return re.search(rf"(?<!\w){re.escape(key(reference))}(?!\w)", key(text)) is not None
