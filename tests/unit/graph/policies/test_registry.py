"""Versions that never change, and which one is promoted: one process, then several at once, killed, and out of room."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from graph.errors import ConfigError, StorageError
from graph.policies.registry import PolicyRegistry
from tests.command import REPOSITORY, wait_for
from tests.policy_directories import adapter_directory, weights_directory


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return adapter_directory(tmp_path / "adapter")


@pytest.fixture
def registry(tmp_path: Path) -> PolicyRegistry:
    return PolicyRegistry(tmp_path / "policies")


def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Run `code` with the registry's class as `R` and the arguments as `args`."""
    head = "import sys; from pathlib import Path; from graph.policies.registry import PolicyRegistry as R\n"
    command = [sys.executable, "-c", f"{head}args = sys.argv[1:]\n{code}", *map(str, arguments)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_reading_what_is_not_there_creates_nothing(registry: PolicyRegistry) -> None:
    assert (registry.versions(), registry.names(), registry.promoted()) == ([], [], None)
    with pytest.raises(ConfigError, match="holds none; add one"):
        registry.get("planner@v1")
    with pytest.raises(ConfigError, match="planner@v1"):
        registry.remove("planner@v1")
    with pytest.raises(ConfigError, match="planner@v1"):
        registry.verify("planner@v1")
    assert not registry.directory.exists()


def test_a_version_holds_the_files_and_says_what_they_are(registry: PolicyRegistry, source: Path) -> None:
    (source / "optimizer.pt").write_bytes(b"of the trainer")
    first = registry.add(source, metrics={"accuracy": 0.5}, training_run="run-1", notes="the first")
    second = registry.add(source, parent=first.full_name, base_revision="abc")
    other = registry.add(weights_directory(source.parent / "weights"), name="critic", base_model="/models/base")
    assert [policy.full_name for policy in registry.versions()] == ["critic@v1", "planner@v1", "planner@v2"]
    assert [first.kind, first.base_model, first.metrics] == ["adapter", "/models/base", {"accuracy": 0.5}]
    assert (second.parent, second.base_revision, other.kind) == ("planner@v1", "abc", "weights")
    for policy in (first, second, other):
        place = registry.path(policy.full_name)
        assert policy == registry.get(policy.full_name) == registry.verify(policy.full_name)
        assert {path.name for path in place.iterdir()} == {*policy.files, "policy.json"}
        for name, digest in policy.files.items():
            assert hashlib.sha256((place / name).read_bytes()).hexdigest() == digest
    assert set(first.files) == {"adapter_config.json", "adapter_model.safetensors"}


def test_numbers_are_sorted_as_numbers(registry: PolicyRegistry, source: Path) -> None:
    for _ in range(11):
        registry.add(source)
    assert [policy.version for policy in registry.versions()] == list(range(1, 12))


SPOILED: dict[str, Callable[[Path], object]] = {
    "neither an adapter": lambda source: (source / "adapter_config.json").unlink(),
    "cannot be read as JSON": lambda source: (source / "adapter_config.json").write_text("{"),
    "only LoRA adapters": lambda source: (source / "adapter_config.json").write_text('{"peft_type": "IA3"}'),
    "does not say which model": lambda source: (source / "adapter_config.json").write_text('{"peft_type": "LORA"}'),
    "adapter_model.safetensors": lambda source: (source / "adapter_model.safetensors").unlink(),
    "safetensors": lambda source: (source / "adapter_model.safetensors").write_bytes(b"\x09" * 40),
    "may run code": lambda source: (source / "adapter_model.bin").write_bytes(b"a pickle"),
    "is no file": lambda source: (source / "extra.txt").symlink_to("nowhere"),
}


@pytest.mark.parametrize("message", SPOILED)
def test_a_source_that_is_no_policy_is_refused_and_leaves_nothing(
    registry: PolicyRegistry, source: Path, message: str
) -> None:
    SPOILED[message](source)
    with pytest.raises(ConfigError, match=message):
        registry.add(source)
    assert not registry.directory.exists()


def test_what_does_not_fit_together_is_refused(registry: PolicyRegistry, source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="belongs to /models/base, not to /models/other"):
        registry.add(source, base_model="/models/other")
    with pytest.raises(ConfigError, match="does not say which model"):
        registry.add(weights_directory(tmp_path / "weights"))
    with pytest.raises(ConfigError, match="no policy planner@v7"):
        registry.add(source, parent="planner@v7")
    with pytest.raises(ConfigError, match="no directory"):
        registry.add(tmp_path / "nothing")
    assert registry.names() == []


@pytest.mark.parametrize("name", ["", ".", "../planner", "a/b", "planner@v1", "-x", "a b", "a\n", "x\0"])
def test_a_name_that_leads_elsewhere_is_refused(registry: PolicyRegistry, source: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="names no policy version"):
        registry.add(source, name=name)
    for act in (registry.path, registry.get, registry.verify, registry.remove, registry.promote):
        with pytest.raises(ConfigError, match="names no policy version"):
            act(f"{name}@v1")
    assert {path.name for path in source.parent.iterdir()} <= {"adapter", "policies"}


def test_an_unknown_name_tells_the_nearest(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    registry.add(source)
    with pytest.raises(ConfigError, match=r"did you mean .*planner@v1"):
        registry.get("plannr@v1")


def test_changed_files_are_noticed(registry: PolicyRegistry, source: Path) -> None:
    changes: list[tuple[str, Callable[[Path], object]]] = [
        ("was changed", lambda place: (place / "adapter_config.json").write_text("{}")),
        ("is missing", lambda place: (place / "adapter_model.safetensors").unlink()),
        ("was put there later", lambda place: (place / "more.txt").write_text("")),
    ]
    for message, change in changes:
        name = registry.add(source).full_name
        registry.verify(name)
        change(registry.path(name))
        with pytest.raises(ConfigError, match=message):
            registry.verify(name)


@pytest.mark.parametrize("record", ["", "{", "[]", '{"name": "planner"}', '{"unknown": 1}'])
def test_a_damaged_record_is_told_and_spoils_no_other(registry: PolicyRegistry, source: Path, record: str) -> None:
    registry.add(source)
    registry.add(source)
    (registry.path("planner@v1") / "policy.json").write_text(record)
    with pytest.raises(ConfigError, match="is damaged: remove planner@v1"):
        registry.get("planner@v1")
    assert registry.get("planner@v2").version == 2
    registry.remove("planner@v1")
    assert registry.names() == ["planner@v2"]


def test_a_directory_that_was_renamed_is_told(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    registry.path("planner@v1").rename(registry.path("planner@v5"))
    with pytest.raises(ConfigError, match="is that of planner@v1"):
        registry.get("planner@v5")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"line": []}', '{"line": [null], "later": 1}', '{"line": [3]}'])
def test_a_damaged_promotion_is_never_taken_for_none(registry: PolicyRegistry, source: Path, text: str) -> None:
    registry.add(source)
    registry.promote("planner@v1")
    (registry.directory / "promoted.json").write_text(text)
    for act in (registry.promoted, registry.rollback, lambda: registry.promote("planner@v1")):
        with pytest.raises(ConfigError, match="is damaged or of a later release: remove it"):
            act()


def test_rollbacks_walk_back_and_a_promotion_starts_a_new_way(registry: PolicyRegistry, source: Path) -> None:
    for _ in range(4):
        registry.add(source)
    with pytest.raises(ConfigError, match="nothing to go back to"):
        registry.rollback()
    assert registry.promote("planner@v1") is None
    assert registry.promote("planner@v2") == "planner@v1"
    assert registry.promote("planner@v3") == "planner@v2"
    assert registry.promote("planner@v3") == "planner@v3"
    assert [registry.rollback(), registry.rollback()] == ["planner@v2", "planner@v1"]
    assert registry.promote("planner@v4") == "planner@v1"
    assert [registry.rollback(), registry.rollback(), registry.promoted()] == ["planner@v1", None, None]
    with pytest.raises(ConfigError, match="nothing to go back to"):
        registry.rollback()
    kinds = [(change.kind, change.policy) for change in registry.promotions().history]
    assert kinds[:4] == [
        ("promote", "planner@v1"),
        ("promote", "planner@v2"),
        ("promote", "planner@v3"),
        ("rollback", "planner@v2"),
    ]
    assert len(kinds) == 8


def test_a_rollback_from_something_else_than_expected_is_refused(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    registry.add(source)
    registry.promote("planner@v1")
    seen = registry.promotions()
    registry.promote("planner@v2")
    with pytest.raises(ConfigError, match="Another process"):
        registry.rollback(expected=seen)
    assert registry.promoted() == "planner@v2"
    assert registry.rollback(expected=registry.promotions()) == "planner@v1"


def test_removing(registry: PolicyRegistry, source: Path) -> None:
    for _ in range(2):
        registry.add(source)
    registry.promote("planner@v1")
    with pytest.raises(ConfigError, match="planner@v1 is promoted"):
        registry.remove("planner@v1")
    registry.remove("planner@v2")
    assert registry.names() == ["planner@v1"]
    assert registry.add(source).full_name == "planner@v3", "servers may still cache what the name stood for"
    registry.promote("planner@v3")
    registry.remove("planner@v1")
    with pytest.raises(ConfigError, match="planner@v9"):
        registry.promote("planner@v9")
    registry.promote(None)
    assert registry.rollback() == "planner@v3"
    assert registry.rollback() is None, "planner@v1 was before, but is gone"
    with pytest.raises(ConfigError, match="nothing to go back to"):
        registry.rollback()


def test_a_name_is_given_once_whatever_became_of_the_version(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    shutil.rmtree(registry.path("planner@v1"))
    assert registry.add(source).full_name == "planner@v2"


def test_a_registry_that_cannot_be_locked(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    (registry.directory / ".lock").mkdir()  # for root, too, no file that can be opened
    for act in (lambda: registry.promote("planner@v1"), registry.rollback, lambda: registry.remove("planner@v1")):
        with pytest.raises(StorageError, match=r"\.lock cannot be locked"):
            act()


@pytest.mark.parametrize("name", ["planner@v" + "9" * 5000, "p" * 300 + "@v1"])
def test_a_name_is_short_enough_for_a_directory(registry: PolicyRegistry, name: str) -> None:
    with pytest.raises(ConfigError, match="names no policy version"):
        registry.get(name)


def test_what_trainers_leave_beside_a_model_stays_out(registry: PolicyRegistry, source: Path) -> None:
    for name in ("rng_state.pth", "rng_state_0.pth", "optimizer.pt", "training_args.bin"):
        (source / name).write_bytes(b"pickle")
    assert not [name for name in registry.add(source).files if name.endswith((".pth", ".pt", ".bin"))]


def test_many_processes_add_and_promote_at_once(registry: PolicyRegistry, source: Path) -> None:
    code = "for _ in range(5):\n r = R(args[0]); r.promote(r.add(Path(args[1])).full_name)"
    processes = [start(code, registry.directory, source) for _ in range(4)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert [policy.version for policy in registry.versions()] == list(range(1, 21))
    for name in registry.names():
        registry.verify(name)
    changes = [change.policy for change in registry.promotions().history]
    assert sorted(filter(None, changes)) == registry.names(), "each promotion is in the history, none is lost"
    assert registry.promoted() == changes[-1]


def test_an_addition_that_is_killed_leaves_no_version(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    with (source / "big.txt").open("wb") as file:
        file.truncate(400_000_000)
    process = start("R(args[0]).add(Path(args[1]))", registry.directory, source)
    wait_for(lambda: any(registry.directory.glob(".adding-*/*")), "the copy has begun")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert registry.names() == ["planner@v1"]
    assert list(registry.directory.glob(".adding-*"))
    (source / "big.txt").unlink()
    assert registry.add(source).full_name == "planner@v2"
    assert not list(registry.directory.glob(".adding-*"))


def test_a_long_copy_holds_up_no_promotion(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    with FileLock(registry.directory / ".adding.lock"):
        registry.promote("planner@v1")
    assert registry.promoted() == "planner@v1"


def test_no_room_is_one_sentence_and_leaves_nothing(registry: PolicyRegistry, source: Path) -> None:
    """A limit to the size of a file stands for a full disk."""
    registry.add(source)
    (source / "big.txt").write_bytes(bytes(1_000_000))
    code = """
import resource, signal
from graph.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    R(args[0]).add(Path(args[1]))
except StorageError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 100_000))
try:
    R(args[0]).promote("planner@v1")
except StorageError as error:
    print(error)
"""
    out, err = start(code, registry.directory, source).communicate(timeout=60)
    adding, promoting = out.splitlines()
    assert "cannot take" in adding, err
    assert "make room there" in adding
    assert "cannot be written" in promoting
    assert {path.name for path in registry.directory.iterdir()} == {
        ".lock",
        ".adding.lock",
        ".used-planner@v1",
        "planner@v1",
    }
    assert registry.promoted() is None


def test_another_process_sees_a_promotion(registry: PolicyRegistry, source: Path) -> None:
    registry.add(source)
    registry.add(source)
    code = """
import time
registry, last = R(args[0]), "nothing yet"
while last != "planner@v2":
    found = registry.promoted()
    if found != last:
        print(found, flush=True)
        last = found
    time.sleep(0.01)
"""
    process = start(code, registry.directory)
    assert process.stdout is not None
    for promoted in (None, "planner@v1", None, "planner@v2"):
        registry.promote(promoted)
        assert process.stdout.readline().strip() == str(promoted)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_asking_again_reads_nothing(registry: PolicyRegistry, source: Path) -> None:
    """It is asked before every call: an unchanged file is not read again, a changed one is."""
    registry.add(source)
    registry.promote("planner@v1")
    assert registry.promotions() is registry.promotions()
    PolicyRegistry(registry.directory).promote(None)
    assert registry.promoted() is None


def test_a_registry_that_cannot_be_made_is_told(tmp_path: Path, source: Path) -> None:
    (tmp_path / "file").write_text("")
    registry = PolicyRegistry(tmp_path / "file" / "policies")
    with pytest.raises(StorageError, match="cannot"):
        registry.add(source)
    with pytest.raises(StorageError, match="cannot"):
        registry.promote(None)


def test_others_may_read_what_was_added(registry: PolicyRegistry, source: Path) -> None:
    """A model server may run as another user."""
    registry.add(source)
    registry.promote("planner@v1")
    assert os.stat(registry.path("planner@v1")).st_mode & 0o055 == 0o055
    assert os.stat(registry.directory / "promoted.json").st_mode & 0o044 == 0o044
    assert json.loads((registry.path("planner@v1") / "policy.json").read_text())["name"] == "planner"
