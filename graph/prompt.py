"""Prompts: Markdown files in `graph/prompts/`, one per role, rendered strictly.

A file is a list of sections. A heading `## kind word …` opens one; the words say when it is used: of `system` and
`final` sections the one whose word is asked for (or the one without a word), of `user`/`assistant` pairs all whose
words are names of offered tools. What never changes comes first, so that servers can reuse what they computed for it.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from graph.errors import ConfigError


class Message(TypedDict):
    """One chat message, as every server takes it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class _Section:
    kind: str
    words: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Prompt:
    """One role's prompt file."""

    role: str
    sections: tuple[_Section, ...]
    digest: str
    """First 16 hex digits of the file's sha256; goes into every trace."""

    def system(self, variables: Mapping[str, str], *, variant: str | None = None) -> Message:
        """Render the system message."""
        return Message(role="system", content=self._render("system", variables, variant))

    def final(self, variables: Mapping[str, str], *, variant: str | None = None) -> Message:
        """Render the last user message."""
        return Message(role="user", content=self._render("final", variables, variant))

    def examples(self, offered: Collection[str]) -> list[Message]:
        """Return the example turns that use only offered tools."""
        return [
            Message(role="user" if section.kind == "user" else "assistant", content=section.text)
            for section in self.sections
            if section.kind in {"user", "assistant"} and set(section.words) <= set(offered)
        ]

    def _render(self, kind: str, variables: Mapping[str, str], variant: str | None) -> str:
        words = (variant,) if variant else ()
        for section in self.sections:
            if section.kind == kind and section.words == words:
                return _fill(section.text, variables, f"{self.role}.md, {kind}")
        raise ConfigError(f"The prompt {self.role}.md has no section '{' '.join(('##', kind, *words))}'.")


@cache
def load_prompt(role: str) -> Prompt:
    """Read and check a role's prompt file."""
    text = (files("graph") / "prompts" / f"{role}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (system|user|assistant|final)((?: [\w-]+)*)$", text, flags=re.MULTILINE)
    sections = tuple(
        _Section(kind, tuple(words.split()), body.strip())
        for kind, words, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    )
    turns = [section for section in sections if section.kind in {"user", "assistant"}]
    for user, assistant in zip(turns[::2], turns[1::2], strict=True):
        if (user.kind, assistant.kind, user.words) != ("user", "assistant", assistant.words):
            raise ConfigError(f"The prompt {role}.md has an example whose user and assistant turns do not pair up.")
    return Prompt(role, sections, hashlib.sha256(text.encode()).hexdigest()[:16])


def hash_messages(messages: Sequence[Message]) -> str:
    """Return the first 16 hex digits of the sha256 of the messages' canonical JSON."""
    canonical = json.dumps(messages, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _fill(text: str, variables: Mapping[str, str], where: str) -> str:
    """Substitute `$name`; a missing or an unused variable is an error."""
    template, needed = _template(text)
    if needed != set(variables):
        wrong = ", ".join(sorted(needed ^ set(variables)))
        raise ConfigError(f"The prompt {where} and its variables do not fit: {wrong}.")
    return template.substitute(variables)


@cache
def _template(text: str) -> tuple[Template, frozenset[str]]:
    template = Template(text)
    return template, frozenset(template.get_identifiers())
