"""The command line of the `bubblewrap` level."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from graph.sandbox.child.lockdown import DEVICES, SHARED_MEMORY
from graph.sandbox.child.namespaces import DISK_MB, INSIDE_ID, SHARED_MB


def bubblewrap_program() -> str | None:
    """Return the path of bwrap, or None where it is not installed."""
    return shutil.which("bwrap")


def bubblewrap_command(
    inner: Sequence[str], *, program: str, readable: Sequence[str], links: Mapping[str, str], home: str, drops: bool
) -> list[str]:
    """Return the arguments that run `inner` in a sandbox which shows `readable`, devices and a private `home`.

    `drops`: the launcher is root and `inner` gives its user up itself, as a user namespace of bubblewrap's would keep
    root's exemption from the process limit.
    """
    command = [program, "--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--hostname", "sandbox", "--cap-drop", "ALL"]
    if drops:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            command += ["--cap-add", capability]
    else:
        command += ["--unshare-user", "--uid", str(INSIDE_ID), "--gid", str(INSIDE_ID)]
    for path, size in ((home, DISK_MB), (SHARED_MEMORY, SHARED_MB)):
        command += ["--perms", "1777", "--size", str(size << 20), "--tmpfs", path]
    for parent in sorted({str(parent) for path in readable for parent in Path(path).parents} - {"/"}):
        command += ["--perms", "0755", "--dir", parent]  # else it copies the mode of /root
    for path in readable:
        command += ["--ro-bind", path, path]
    for path in DEVICES:
        command += ["--dev-bind", path, path]
    for name, target in links.items():
        command += ["--symlink", target, name]
    return [*command, "--remount-ro", "/", "--chdir", home, "--", *inner]
