"""From a question in plain language to an FTS5 match expression.

Every word is quoted, so that no input is read as FTS5 syntax; words that say nothing about the subject are dropped; the
rest are joined with OR and left to bm25, which lets rare words decide. FTS5 itself stems the words as it stemmed the
documents. Questions use other words than the texts that answer them ("who invented" for "inventor", "how many people
live in" for "population"): a short table adds those, as stemming cannot.
"""

import re

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_POSSESSIVE = re.compile(r"'s$")

_STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few find
    for from further give had has hasn't have haven't having he her here hers him his how i if in into is isn't it it's
    its itself know let's list many me might more most much must my no nor not of off on once only or other our out over
    own please same shall she should show so some such tell than that that's the their them then there these they this
    those through to too under until up upon use used using very was wasn't we were weren't what what's when when's
    where where's which while who who's whom whose why will with won't would you your yours
    """.split()  # noqa: SIM905 - as a literal it would take a line a word
)

_ALSO = {
    "author": ("written", "wrote"),
    "begin": ("began", "started"),
    "born": ("birth",),
    "built": ("constructed", "completed"),
    "composed": ("composer",),
    "die": ("death", "died"),
    "died": ("death",),
    "directed": ("director",),
    "discovered": ("discovery", "discoverer"),
    "founded": ("founder", "established"),
    "inhabitants": ("population",),
    "invented": ("inventor", "invention"),
    "language": ("spoken",),
    "live": ("population",),
    "located": ("location",),
    "money": ("currency",),
    "painted": ("painting", "painter"),
    "sink": ("sank",),
    "spoken": ("language",),
    "start": ("began",),
    "won": ("win", "winner"),
    "written": ("author", "wrote"),
    "wrote": ("author", "written"),
}

MAX_WORDS = 64
"""Distinct words of a query that are searched for; a model that pastes a page as its query gets its first words."""


def query_words(question: str, limit: int = MAX_WORDS) -> list[str]:
    """The first `limit` distinct words of `question` that carry meaning, lower case, in order; all if none does."""
    words = [word.lower().replace("\u2019", "'") for word in _WORD.findall(question)]
    telling = [word for word in words if word not in _STOP_WORDS] or words
    return list(dict.fromkeys(_POSSESSIVE.sub("", word) for word in telling))[:limit]


def query_concepts(question: str) -> list[tuple[str, ...]]:
    """Each of `query_words` with the words that texts use for the same."""
    return [(word, *_ALSO.get(word, ())) for word in query_words(question)]


def match_expression(question: str) -> str | None:
    """An FTS5 expression for `question`, valid for any input; None if it holds no word at all."""
    words = dict.fromkeys(word for concept in query_concepts(question) for word in concept)
    return " OR ".join(f'"{word}"' for word in words) if words else None
