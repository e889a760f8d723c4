"""Commands called in the tests' own process: quick, for everything that needs no terminal, signal or exit status."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command import Workplace
from tests.fakes import ScriptedServer
from tests.flows import scripts

Call = Callable[..., str]
"""`Workplace.call`."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Answers every question alike."""
    with ScriptedServer(scripts(), repeat=True) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """A directory with nobody at the address of its configuration."""
    return Workplace(tmp_path, "http://127.0.0.1:9/v1")


@pytest.fixture
def call(place: Workplace) -> Call:
    """Calls a command there."""
    return place.call
