"""Reading a run's latest checkpoint: what is in it may be damaged, or somebody else's."""

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from graph.errors import StorageError
from graph.flow import Flow
from graph.state import Request, Setup


async def read_snapshot(flow: Flow, address: RunnableConfig) -> StateSnapshot:
    """Return the latest checkpoint at `address`; without values where there is none.

    Raises:
        StorageError: it is damaged, or not one of ours.
    """
    run = address["configurable"]["thread_id"]
    try:
        snapshot = await flow.aget_state(address)
        whole = not snapshot.values or _is_whole(snapshot.values)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise StorageError(f"The checkpoint of the run {run} is damaged: delete the run.") from error
    if not whole:
        raise StorageError(f"The checkpoint of the run {run} is damaged: delete the run.")
    return snapshot


def _is_whole(state: Mapping[str, Any]) -> bool:
    """Whether the values are what nodes write together."""
    typed = isinstance(state["request"], Request) and isinstance(state["setup"], Setup)
    return typed and all(call.turn < len(state["turns"]) for call in state["calls"])
