"""`python -m agentflow`."""

from agentflow.main import run

run()
