"""From a user's file to documents, naming what cannot be read and going on.

JSONL gives a document a line; Markdown one a section, titled by its headings; text one a file. Long documents are cut
at paragraphs, as a search returns whole documents.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

from graph.corpus.document import Document

MAX_LINE_BYTES = 10_000_000
"""A longer line of a JSONL file is skipped."""
MAX_FILE_BYTES = 50_000_000
"""A larger Markdown or text file is skipped; JSONL files are read line by line and may have any size."""
PART_CHARS = 4_000
"""A document longer than twice this is cut into parts of about this length."""

_ID_FIELDS = ("id", "_id", "docid", "doc_id")
_TEXT_FIELDS = ("text", "contents", "content", "body")
_SOURCE_FIELDS = ("source", "url")

Problem = Callable[[str], None]
"""Told what was left out of a file, in a few words."""


def reader_of(path: PurePath) -> Callable[[Path, str, Problem], Iterator[Document]] | None:
    """The reader for a file, by its suffix; None for a kind that is not indexed."""
    return _READERS.get(path.suffix.lower())


def read_jsonl(path: Path, name: str, problem: Problem) -> Iterator[Document]:
    """A document a line, with an optional `id` and `title`, and `text` or `contents`. Raises OSError."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                problem(f"line {number} is longer than {MAX_LINE_BYTES:,} bytes")
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                continue
            try:
                yield from _split_long(_from_line(line, number, name))
            except _SkippedError as error:
                problem(f"line {number} {error}")


def read_markdown(path: Path, name: str, problem: Problem) -> Iterator[Document]:
    """A document a section; its title is the headings above it. Raises OSError."""
    from markdown_it import MarkdownIt  # not at the top: only a build needs it

    text = _read_text(path, problem)
    if text is None:
        return
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    lines = text.splitlines()
    tokens = MarkdownIt().parse(text)
    headings: dict[int, str] = {}
    sections = [(0, 0, name)]
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            level = int(token.tag[1:])
            headings = {above: title for above, title in headings.items() if above < level} | {level: inline.content}
            title = ": ".join(headings[above] for above in sorted(headings))
            sections.append((token.map[0], token.map[1], title))
    for number, (start, body, title) in enumerate(sections):
        end = sections[number + 1][0] if number + 1 < len(sections) else len(lines)
        content = "\n".join(lines[body:end]).strip()
        if content:
            yield from _split_long([Document(f"{name}#{start + 1}", title, content, name)])


def read_text(path: Path, name: str, problem: Problem) -> Iterator[Document]:
    """One document, titled by the file's name. Raises OSError."""
    text = _read_text(path, problem)
    if text is not None and text.strip():
        yield from _split_long([Document(name, PurePath(name).stem.replace("_", " "), text.strip(), name)])


_READERS: dict[str, Callable[[Path, str, Problem], Iterator[Document]]] = {
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_text,
    ".text": read_text,
}
SUFFIXES = tuple(sorted(_READERS))
"""The kinds of files that are indexed."""


class _SkippedError(Exception):
    """Why a line gives no document."""


def _from_line(line: bytes, number: int, name: str) -> list[Document]:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise _SkippedError(f"is not UTF-8 (byte {error.start + 1})") from error
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _SkippedError(f"is not JSON ({error.msg} at column {error.colno})") from error
    except (RecursionError, ValueError) as error:
        raise _SkippedError("is not JSON that can be read (nested too deep, or a number too long)") from error
    if not isinstance(value, dict):
        raise _SkippedError("is not a JSON object")
    content = _field(value, _TEXT_FIELDS)
    if not content.strip():
        raise _SkippedError(f"has no text (one of the fields {', '.join(_TEXT_FIELDS)})")
    title = _field(value, ("title",))
    if not title and "contents" in value and "\n" in content:
        # the convention of retrieval corpora: the title, in quotes, is the first line of `contents`
        title, content = content.split("\n", 1)
        title = title.strip().strip('"')
    identifier = _field(value, _ID_FIELDS) or f"{name}#{number}"
    return [Document(identifier, title, content, _field(value, _SOURCE_FIELDS) or name)]


def _field(value: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        found = value.get(name)
        if isinstance(found, str | int | float) and not isinstance(found, bool):
            return str(found)
    return ""


def _read_text(path: Path, problem: Problem) -> str | None:
    if path.stat().st_size > MAX_FILE_BYTES:
        problem(f"larger than {MAX_FILE_BYTES:,} bytes: split it, or make it JSONL")
        return None
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem(f"not UTF-8 text (byte {error.start + 1}): convert it")
        return None
    if "\0" in text:
        problem("binary data, not text")
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split_long(documents: list[Document]) -> Iterator[Document]:
    for document in documents:
        if len(document.text) <= 2 * PART_CHARS:
            yield document
            continue
        for number, part in enumerate(_parts(document.text), start=1):
            yield Document(f"{document.id}:{number}", document.title, part, document.source)


def _parts(text: str) -> Iterator[str]:
    """Cut at the last paragraph's, line's or word's end before the limit."""
    while len(text) > PART_CHARS:
        cut = next(
            (found for mark in ("\n\n", "\n", " ") if (found := text.rfind(mark, PART_CHARS // 2, PART_CHARS)) > 0),
            PART_CHARS,
        )
        yield text[:cut].strip()
        text = text[cut:].lstrip()
    if text:
        yield text
