"""What the tests of storage share."""

import pytest


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "state" / "runs.db")
