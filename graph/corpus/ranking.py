"""Second look at the best matches of bm25.

bm25 adds up words: a short document with one rare word of the question may outrank the one that has them all, and
"Peace of Westphalia" comes close to "War and Peace". Among the candidates, a document therefore gains by the share of
the question's concepts that it holds, and by the share of its title that the question names.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from graph.corpus.query import query_concepts, query_words

CANDIDATES = 60
"""How many of bm25's best are looked at again."""

_COVERAGE_GAIN = 2.0
_TITLE_GAIN = 0.3
_HEAD = 1_000
"""Characters of a document in which the question's words are looked for: what it is about stands at its beginning."""

_QUALIFIER = re.compile(r"\s*\([^)]*\)")


def rerank_gain(question: str) -> "Gain":
    """A function that gives the factor by which a document's bm25 score counts for `question`."""
    return Gain([_stems(concept) for concept in query_concepts(question)])


class Gain:
    """The factor for one question; see the module's text."""

    def __init__(self, concepts: Sequence[frozenset[str]]) -> None:
        self._concepts = concepts
        self._all = frozenset().union(*concepts)

    def __call__(self, title: str, text: str) -> float:
        """1 for a document that shares nothing with the question, up to 3.9 for one that has it all."""
        named = _stems(tuple(query_words(_QUALIFIER.sub("", title) or title)))
        held = named | _stems(tuple(query_words(text[:_HEAD], limit=_HEAD)))
        coverage = sum(1 for concept in self._concepts if concept & held) / max(1, len(self._concepts))
        titled = len(named & self._all) / max(1, len(named))
        return (1 + _COVERAGE_GAIN * coverage) * (1 + _TITLE_GAIN * titled)


def _stems(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(_stem, words))


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Any:
    import snowballstemmer  # not at the top: 25 languages, which only a search needs

    return snowballstemmer.stemmer("porter")
