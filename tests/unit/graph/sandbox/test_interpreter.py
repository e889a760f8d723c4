import os
import sys
from pathlib import Path

from graph.sandbox.interpreter import current_interpreter


def test_paths_exist_and_do_not_contain_each_other() -> None:
    readable = current_interpreter().readable
    assert readable
    for path in readable:
        assert Path(path).exists()
        assert not any(Path(other) in Path(path).parents for other in readable)


def test_nothing_of_the_user_is_readable() -> None:
    readable = [Path(path) for path in current_interpreter().readable]
    for private in (Path.home(), Path.cwd(), Path("/etc/passwd"), Path("/proc"), Path("/run"), Path("/tmp")):
        assert private not in readable
        assert not any(path in private.parents for path in readable)


def test_program_is_the_real_one() -> None:
    program = current_interpreter().program
    assert not os.path.islink(program)
    assert f"{sys.version_info.major}" in Path(program).name
