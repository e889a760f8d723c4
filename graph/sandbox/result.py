"""What came out of one run of code."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Limit = Literal["time", "memory", "processes", "output"]


class RunResult(BaseModel):
    """The outcome of one run, whether the code succeeded or not."""

    model_config = ConfigDict(frozen=True)

    stdout: str
    """Bytes that are not UTF-8 are replacement characters; the middle is left out where `stdout_truncated`."""
    stderr: str
    """Warnings and tracebacks, apart from stdout."""
    value: str | None
    """`repr` of the last expression, as a notebook shows it; None where there is none or it is None."""
    exit_status: int
    """0 for success, else the code's own status; 128 + n where signal n ended it, as a shell reports it."""
    limit: Limit | None = None
    """The limit whose breach ended the run."""
    figures: tuple[bytes, ...] = ()
    """PNG images that the code saved or showed."""
    seconds: float
    """Wall clock from the start of the code to the end of its last process."""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    value_truncated: bool = False

    @property
    def timed_out(self) -> bool:
        """Whether the time limit, of the wall clock or of the processor, ended the run."""
        return self.limit == "time"
