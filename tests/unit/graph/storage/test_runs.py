"""The table of runs, on SQLite here; tests/integration/test_postgres.py runs the same on PostgreSQL."""

from tests.stored_runs import *  # noqa: F403
