"""What the engine must know of the machine: memory, cores, and which process is which."""

import os
import sys
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Bytes that this process may still take: of the machine, or of its container (cgroup v2) if that is less."""
    import psutil  # imported here: only an engine's start needs it

    available: int = psutil.virtual_memory().available
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no cgroup v2, or no limit ("max")
        return available
    # Cached file pages count as used, but are given up on demand.
    return min(available, limit - used + int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0)))


def usable_cores() -> int:
    """Cores that this process may keep busy, at least one: its affinity, or its container's quota if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def birth_mark(pid: int) -> str | None:
    """A mark that no other process with this pid ever has, before or after a reboot. None when no such process runs.

    On Linux it is made of the boot's id and the start in clock ticks since: psutil's start time moves with the system's
    clock. A zombie does not run.
    """
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return None
        return None if fields[0] in {"Z", "X"} else f"{boot}/{fields[19]}"
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.0f}"
    except psutil.Error:
        return None
