"""What imports what, and what an import costs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PROBE = """
import json, os, socket, sys

read = []
class Watched(dict):
    def __getitem__(self, name):
        read.append(name)
        return dict.__getitem__(self, name)
    def get(self, name, default=None):
        read.append(name)
        return dict.get(self, name, default)

def refuse(*args, **kwargs):
    raise AssertionError("a connection is opened on import")

socket.socket.connect = refuse
real, os.environ = os.environ, Watched(os.environ)
import {module}
os.environ = real
print(json.dumps({{"modules": sorted(sys.modules), "read": read}}))
"""
HEAVY = {"torch", "transformers", "trl", "vllm", "peft", "ray", "streamlit", "openai", "langchain_openai", "xllamacpp"}


def test_arrows_point_down():
    """The contracts of pyproject.toml."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("module", ["graph", "graph.config", "graph.records", "graph.runner", "graph.trace"])
def test_imports_are_light_and_look_at_nothing(module):
    """No model library, no connection, no key."""
    probe = PROBE.format(module=module)
    done = subprocess.run([sys.executable, "-c", probe], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert not HEAVY & {name.partition(".")[0] for name in found["modules"]}
    assert not [name for name in found["read"] if name.endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD"))]


def test_the_package_itself_imports_next_to_nothing():
    """`import graph` stays well under a second because it adds a handful of modules to a bare interpreter."""
    count = "import sys; before = set(sys.modules); import graph; print(len(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", count], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 5
