"""A disk that is really full: a small one of our own, in a user namespace where the machine allows that."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[4]

_FETCH = """
import os, subprocess, sys
from pathlib import Path
cache = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={sys.argv[2]}", "none", cache], check=True)
os.environ |= {"AGENTFLOW_CACHE_DIR": str(cache), "HF_HUB_OFFLINE": "0", "PIP_NO_INDEX": "1", "no_proxy": "*"}
from graph.assets import ensure, is_fetched
from graph.errors import SetupError
from tests.asset_sources import Hub, asset

def fill():
    '''Leave room for less than half of the asset.'''
    with open(cache / "filler", "wb", buffering=0) as filler:
        while True:
            try:
                filler.write(bytes(65536))
            except OSError:
                break
        filler.truncate(filler.tell() - 150_000)

with Hub(before=fill if sys.argv[3] == "meanwhile" else lambda: None) as hub:
    os.environ["HF_ENDPOINT"] = hub.endpoint
    try:
        ensure(asset())
    except SetupError as error:
        print(f"{len(hub.paths)} requests, fetched: {is_fetched(asset())}")
        print(*sorted(path.name for path in (cache / "models").iterdir() if path.suffix != ".lock"))
        print(error)
"""


@pytest.mark.parametrize(("size", "when", "requests"), [("1m", "before", 0), ("80m", "meanwhile", 1)])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path, size: str, when: str, requests: int) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    possible = subprocess.run([*namespace, "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True, check=False)
    if possible.returncode:
        pytest.skip("needs user namespaces with mounts")
    finished = subprocess.run(
        [*namespace, sys.executable, "-c", _FETCH, str(tmp_path), size, when],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    state, left, message = finished.stdout.splitlines()
    assert state == f"{requests} requests, fetched: False"
    assert left == ""
    assert f"The disk that holds {tmp_path}/models is full: the test model needs 0.1 GB" in message
    assert "set AGENTFLOW_CACHE_DIR" in message
