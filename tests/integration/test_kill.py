"""kill -9 at every point of a run, on SQLite."""

import pytest

from tests.kills import *  # noqa: F403


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "state" / "runs.db")
