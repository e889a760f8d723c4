"""Takes keys, and on request what tells who somebody is, out of a trajectory.

Every replacement is `[NAME]`, with the name of the pattern that matched. A call whose messages or text changed loses
its token ids and log-probabilities, which spell what was there, and its prompt hash becomes that of its new messages.
All other calls keep everything. Redacting twice changes nothing.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from graph.errors import ConfigError
from graph.known_secrets import KnownSecrets
from graph.memory import CUT
from graph.prompt import Message, hash_messages
from graph.texts import collect_texts, map_texts
from graph.trace import TracedCall, Trajectory
from graph.traces.patterns import KEY, KEYS, Pattern, own_pattern
from graph.traces.personal import PERSONAL

if TYPE_CHECKING:
    from graph.config import FlowConfig

_KEPT: Final = frozenset(
    {
        *("id", "conversation", "group", "parent", "source", "stop", "status", "module", "role", "policy", "verdict"),
        *("prompt_hash", "config_hash", "prompts", "versions", "reward_source", "finish_reason", "redacted"),
        *("messages", "prompt_ids", "completion_ids", "logprobs"),
    }
)
"""Fields that hold ids, hashes, names of ours or numbers. Messages are seen to one by one."""


_LEAST_REST: Final = 4
"""Characters of a match that are told from other text."""


class Redactor:
    """Redacts one trajectory after the other; keeps nothing of them."""

    def __init__(self, patterns: Sequence[Pattern], own: Sequence[Pattern] = ()) -> None:
        """`own` are a user's, which may match anything; they come after the others."""
        self._patterns = tuple(patterns)
        self._own = tuple(own)
        self._all = (*self._patterns, *self._own)
        self._across_lines = any("\n" in needed for pattern in patterns for needed in pattern.needs)
        names = {pattern.name for pattern in self._all}
        self._marks = re.compile(rf"(\[(?:{'|'.join(sorted(map(re.escape, names))) or '(?!)'})\])")

    @classmethod
    def of(cls, config: "FlowConfig", *, personal: bool, own: Mapping[str, str]) -> "Redactor":
        """Make what an export needs.

        Args:
            config: names the secrets that this process knows, and the user's standing patterns.
            personal: also replace what tells who somebody is, and matches of the standing patterns.
            own: further expressions by name.

        Raises:
            ConfigError: an expression of `own` or its name cannot be used.
        """
        patterns = (*_known(config), *KEYS, *(PERSONAL if personal else ()))
        given = {**(config.traces.redact if personal else {}), **own}
        try:
            return cls(patterns, [own_pattern(name, regex) for name, regex in given.items()])
        except ValueError as error:
            raise ConfigError(f"--redact-pattern cannot be used: {error}.") from error

    @classmethod
    def of_secrets(cls, config: "FlowConfig") -> "Redactor":
        """Make what keeps this process's own secrets, and nothing else, out of traces that come in."""
        return cls(_known(config))

    def redact(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory without what the patterns match; the same object where nothing does."""
        texts: set[str] = set()
        collect_texts(trajectory, texts, _KEPT)
        for call in trajectory.calls:
            texts.update(message["content"] for message in call.messages or ())
        changes, names = self._changes(texts)
        if not changes:
            return trajectory

        def change(text: str) -> str:
            return changes.get(text, text)

        changed = map_texts(trajectory, change, _KEPT)
        calls = tuple(
            _redacted(call, before, change) for call, before in zip(changed.calls, trajectory.calls, strict=True)
        )
        return changed.model_copy(update={"calls": calls, "redacted": tuple(sorted({*trajectory.redacted, *names}))})

    def _changes(self, texts: Collection[str]) -> tuple[dict[str, str], set[str]]:
        """Return the texts that change, as they become, and the names of the patterns that matched."""
        together = self._together(texts)
        likely = [pattern for pattern in self._patterns if _finds(pattern, together)]
        # A user's expression may look for the beginning of a text: it is tried in each.
        if not likely and not any(_finds(pattern, text) for text in texts for pattern in self._own):
            return {}, set()
        found: dict[str, str] = {}
        changes = {text: self._replaced(text, (*likely, *self._own), found) for text in texts}
        for text, new in changes.items():
            shorter = _without_rests(new, found)
            changes[text] = new if shorter == new else self._replaced(shorter, self._all, found)
        return {text: new for text, new in changes.items() if new != text}, set(found.values())

    def _together(self, texts: Iterable[str]) -> str:
        """Return one text in which the patterns find something if they do in any: prompts have most lines in common."""
        if self._across_lines:
            return "\n".join(texts)
        return "\n".join({line for text in texts for line in text.split("\n")})

    def _replaced(self, text: str, patterns: Iterable[Pattern], found: dict[str, str]) -> str:
        """Replace until nothing is left: what goes may have kept its neighbour from being recognised."""
        while (new := self._once(text, patterns, found)) != text:
            text, patterns = new, self._all
        return text

    def _once(self, text: str, patterns: Iterable[Pattern], found: dict[str, str]) -> str:
        """Replace what each pattern finds, and note that in `found`, with the pattern's name."""
        pieces = self._marks.split(text) if "[" in text else [text]  # every second one is a replacement
        for pattern in patterns:
            left: list[str] = []
            for index, piece in enumerate(pieces):
                at = 0
                for start, end in pattern.find(piece) if index % 2 == 0 else ():
                    left += [piece[at:start], f"[{pattern.name}]"]
                    at = end
                    found[piece[start:end]] = pattern.name
                left.append(piece[at:])
            pieces = left
        return "".join(pieces)


def _without_rests(text: str, found: Mapping[str, str]) -> str:
    """Replace what was left of a match where a text was cut, as long results are in prompts."""
    pieces = CUT.split(text) if found and "…" in text else [text]
    if len(pieces) == 1:
        return text
    for index, piece in enumerate(pieces):
        for value, name in found.items():
            sizes = range(len(value) - 1, _LEAST_REST - 1, -1)
            if index < len(pieces) - 1 and (size := next((n for n in sizes if piece.endswith(value[:n])), 0)):
                piece = f"{piece[:-size]}[{name}]"
            if index and (size := next((n for n in sizes if piece.startswith(value[-n:])), 0)):
                piece = f"[{name}]{piece[size:]}"
        pieces[index] = piece
    notes = [*CUT.findall(text), ""]
    return "".join(part for pair in zip(pieces, notes, strict=True) for part in pair)


def _known(config: "FlowConfig") -> tuple[Pattern, ...]:
    known = KnownSecrets.of(config)
    return (Pattern(KEY, known.pattern, known.forms),) if known.pattern else ()


def _finds(pattern: Pattern, text: str) -> bool:
    return next(pattern.find(text), None) is not None


def _redacted(call: TracedCall, before: TracedCall, change: Callable[[str], str]) -> TracedCall:
    """Return a call whose other fields are redacted with its messages redacted too, and without what would spell them.

    A prompt that could not be rendered is nowhere but in its ids: something of this trajectory may stand in it.
    """
    messages = tuple(
        Message(role=message["role"], content=change(message["content"])) for message in call.messages or ()
    )
    update: dict[str, Any] = {}
    if call.messages is not None and messages != call.messages:
        update = {"messages": messages, "prompt_hash": hash_messages(messages)}
    if update or call.messages is None or call.text != before.text:
        update |= {"prompt_ids": None, "completion_ids": None, "logprobs": None}
    return call.model_copy(update=update) if update else call
