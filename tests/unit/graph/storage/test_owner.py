import subprocess
import sys

import pytest

from graph.errors import ConfigError
from graph.storage.owner import drive, host_name, is_elsewhere, is_gone, process_id, this_process


def test_this_process_is_not_gone():
    assert not is_gone(this_process())


def test_a_process_that_has_ended_is_gone():
    code = "from graph.storage.owner import this_process; print(this_process())"
    mark = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert process_id(mark).isdigit()
    assert is_gone(mark)


def test_another_process_with_the_same_id_does_not_stand_in_for_it():
    place, pid, mark = this_process().split(" ")
    assert is_gone(f"{place} {pid} {mark}0")


def test_a_process_of_another_machine_may_still_run():
    _place, pid, mark = this_process().split(" ")
    assert not is_gone(f"elsewhere/1 {pid} {mark}0")


def test_a_run_without_an_owner_goes_on_nowhere():
    assert is_gone(None)


def test_which_machine():
    assert not is_elsewhere(this_process())
    assert is_elsewhere("elsewhere/1 7 mark")
    assert host_name("elsewhere/1 7 mark") == "elsewhere"


def test_a_run_is_driven_once_at_a_time():
    def end_badly() -> None:
        with drive("run-1"):
            raise KeyError

    with drive("run-1"), drive("run-2"):
        with pytest.raises(ConfigError, match="run-1 still goes on in this process"):
            end_badly()
        with pytest.raises(ConfigError, match="run-1 still goes on in this process"):
            end_badly()
    with pytest.raises(KeyError):
        end_badly()
    with drive("run-1"):
        pass
