"""Runs code that nobody has read in processes that can do no harm.

`detect_level` finds the strongest isolation that works here, `run_python` runs code in it. See docs/sandbox.md.
"""

from graph.sandbox.detect import detect_level
from graph.sandbox.launcher import run_python
from graph.sandbox.level import Level
from graph.sandbox.result import RunResult

__all__ = ["Level", "RunResult", "detect_level", "run_python"]
