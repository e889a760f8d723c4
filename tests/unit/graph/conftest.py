"""What the tests of the flow share."""

import pytest


@pytest.fixture
def counting(tmp_path, monkeypatch):
    """The file in which the counting tool notes its calls."""
    file = tmp_path / "count.txt"
    file.touch()
    monkeypatch.setenv("COUNTING_FILE", str(file))
    return file
