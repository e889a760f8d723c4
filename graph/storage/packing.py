"""Trajectories as the `runs` table holds them."""

from graph.errors import StorageError
from graph.storage.compression import compress, decompress
from graph.trace import Trajectory


def pack(trajectory: Trajectory) -> bytes:
    """Return what is stored: prompts make it megabytes, most of which repeat each other."""
    return compress(trajectory.model_dump_json().encode(), level=1)


def unpack(run: str, data: bytes) -> Trajectory:
    """Return what was stored.

    Raises:
        StorageError: it is damaged.
    """
    try:
        return Trajectory.model_validate_json(decompress(data))
    except ValueError as error:
        raise StorageError(f"The trajectory of the run {run} is damaged: delete the run.") from error
