"""Building from a folder, again and again."""

import json
import os
from pathlib import Path

import pytest

from graph.corpus import readers
from graph.corpus.document import Document
from graph.corpus.folder import BuildReport, build_folder
from graph.corpus.index import CorpusIndex, build_index
from graph.errors import ConfigError, StorageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "facts.jsonl").write_text(
        '{"id": "a", "title": "Alpha", "text": "The first letter."}\n'
        "\n"
        '{"contents": "\\"Beta\\"\\nThe second letter."}\n'
    )
    (folder / "guide.md").write_text(
        "intro\n\n# Guide\n\n## Install\n\nRun it.\n\n```\n# no heading\n```\n\n# End\nBye.\n"
    )
    (folder / "deep" / "my_note.txt").write_text("Remember the milk.")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / ".hidden.txt").write_text("secret")
    return folder


def build(folder: Path, **options: object) -> BuildReport:
    return build_folder(folder, folder.parent / "index.db", **options)


def search(folder: Path, query: str) -> list[tuple[str, str]]:
    return [(hit.title, hit.source) for hit in CorpusIndex(folder.parent / "index.db").search(query, 5)]


def test_jsonl_markdown_and_text_become_documents(folder: Path) -> None:
    seen: list[str] = []
    report = build(folder, on_file=seen.append)
    assert (report.added, report.updated, report.removed, report.skipped) == (3, 0, 0, [])
    assert seen == ["facts.jsonl", "guide.md", "deep/my_note.txt"]
    assert search(folder, "first letter")[0] == ("Alpha", "facts.jsonl")
    assert search(folder, "second letter")[0] == ("Beta", "facts.jsonl")
    assert search(folder, "run install")[0] == ("Guide: Install", "guide.md")
    assert search(folder, "milk") == [("my note", "deep/my_note.txt")]
    assert search(folder, "no heading")[0] == ("Guide: Install", "guide.md")
    assert search(folder, "secret") == []


def test_second_build_takes_up_what_changed(folder: Path) -> None:
    build(folder)
    (folder / "deep" / "my_note.txt").write_text("Remember the bread.")
    (folder / "guide.md").unlink()
    (folder / "new.txt").write_text("A new file.")
    os.utime(folder / "facts.jsonl")  # touched, not changed
    report = build(folder)
    assert (report.added, report.updated, report.removed, report.unchanged) == (1, 1, 1, 1)
    assert search(folder, "bread")
    assert search(folder, "milk") == []
    assert search(folder, "install") == []
    assert report.documents == CorpusIndex(folder.parent / "index.db").info().documents == 4
    assert build(folder).unchanged == 3


def test_file_with_the_same_size_and_time_is_not_read_again(folder: Path) -> None:
    build(folder)
    note = folder / "deep" / "my_note.txt"
    before = note.stat()
    note.write_text("Remember the silk.")
    os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert build(folder).unchanged == 3
    assert search(folder, "milk")


def test_bad_lines_are_named_again_and_the_rest_is_built(folder: Path) -> None:
    lines = [
        b'{"text": "good one"}',
        b'{"text": "broken',
        b'["a list"]',
        b'{"title": "no text"}',
        b'{"text": "caf\xe9"}',
        b"[" * 100_000,
        b'{"text": "' + b"x" * readers.MAX_LINE_BYTES + b'"}',
        b'{"text": "good two", "id": 8}',
    ]
    (folder / "bad.jsonl").write_bytes(b"\n".join(lines))
    report = build(folder)
    assert [path for path, _ in report.skipped] == ["bad.jsonl"] * 6
    reasons = [reason for _, reason in report.skipped]
    assert [int(reason.split()[1]) for reason in reasons] == [2, 3, 4, 5, 6, 7]
    assert "not JSON" in reasons[0]
    assert "not UTF-8 (byte 14)" in reasons[3]
    assert [hit.id for hit in CorpusIndex(folder.parent / "index.db").search("good two", 1)] == ["8"]
    assert build(folder).skipped == report.skipped


def test_report_of_a_file_full_of_bad_lines_stays_short(folder: Path) -> None:
    (folder / "bad.jsonl").write_text("nonsense\n" * 1000)
    reasons = [reason for _, reason in build(folder).skipped]
    assert len(reasons) == 21
    assert reasons[-1] == "and 980 more lines"


def test_bad_files_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_FILE_BYTES", 1000)
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "binary.txt").write_bytes(b"a\0b")
    (folder / "large.md").write_text("x" * 1001)
    (folder / "gone.txt").symlink_to(folder / "nowhere.txt")
    (folder / "deep" / "loop").symlink_to(folder)
    (folder / "ring.txt").symlink_to(folder / "ring.txt")
    os.mkfifo(folder / "pipe.txt")
    report = build(folder)
    reasons = dict(report.skipped)
    assert "not UTF-8" in reasons["latin.txt"]
    assert "binary" in reasons["binary.txt"]
    assert "larger than 1,000 bytes" in reasons["large.md"]
    assert "cannot be read" in reasons["gone.txt"]
    assert "cannot be read" in reasons["ring.txt"]
    assert "not a regular file" in reasons["pipe.txt"]
    assert "contains it" in reasons["deep/loop"]
    assert search(folder, "milk") == [("my note", "deep/my_note.txt")]


def test_file_that_turns_unreadable_is_not_offered_as_current(folder: Path) -> None:
    build(folder)
    note = folder / "deep" / "my_note.txt"
    note.unlink()
    note.symlink_to(folder / "nowhere")
    assert build(folder).skipped[0][0] == "deep/my_note.txt"
    assert search(folder, "milk") == []
    note.unlink()
    note.write_text("Remember the milk.")
    assert build(folder).added == 1
    assert search(folder, "milk")


def test_linked_folder_is_followed_once(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "far.txt").write_text("Far away.")
    (outside / "back").symlink_to(folder)
    (folder / "link").symlink_to(outside)
    report = build(folder)
    assert search(folder, "far away") == [("far", "link/far.txt")]
    assert report.skipped == [("link/back", "a link to a folder that contains it")]


def test_name_that_is_not_utf8(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("Latin name.")
    build(folder)
    assert search(folder, "latin")[0][1] == "caf\\udce9.txt"
    assert build(folder).unchanged == 4


def test_long_text_is_found_in_parts(folder: Path) -> None:
    (folder / "long.txt").write_text(
        "\n\n".join(f"Paragraph {n} speaks of thing{n}. " + "word " * 60 for n in range(100))
    )
    build(folder)
    (hit,) = CorpusIndex(folder.parent / "index.db").search("thing73", 5)
    assert len(hit.text) <= readers.PART_CHARS
    assert hit.id.startswith("long.txt:")


def test_empty_or_missing_folder_changes_nothing(folder: Path, tmp_path: Path) -> None:
    build(folder)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(ConfigError, match="nothing was changed"):
        build(folder)
    with pytest.raises(ConfigError, match="not a folder"):
        build_folder(tmp_path / "missing", tmp_path / "index.db")
    assert search(folder, "milk")


def test_index_of_something_else_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    build_index([Document("1", "t", "x", "s")], tmp_path / "index.db")
    with pytest.raises(ConfigError, match="give another path"):
        build(folder)
    (tmp_path / "index.db").write_text(json.dumps("not an index") * 50)
    with pytest.raises(StorageError, match="not a corpus index"):
        build(folder)
