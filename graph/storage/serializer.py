"""Checkpoint serialisation that never runs code from a file."""

import inspect
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from graph import records, state
from graph.errors import StorageError

_READABLE = frozenset({"null", "bytes", "bytearray", "msgpack"})


def record_types() -> list[tuple[str, str]]:
    """Return module and name of every type that checkpoints of this project hold."""
    own = [
        kind
        for module in (records, state)
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, records.Record | records.StopReason) and kind.__module__ == module.__name__
    ]
    return [(kind.__module__, kind.__name__) for kind in own]


class StrictSerializer(JsonPlusSerializer):
    """msgpack with an allow-list: our records and LangGraph's own safe types, nothing else."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=record_types())

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what `dumps_typed` wrote.

        Raises:
            StorageError: the value is damaged, or of an encoding that this project never writes.
        """
        if data[0] not in _READABLE:
            raise StorageError(f"The checkpoint holds {data[0]!r} data, which this project never writes: not read.")
        try:
            return super().loads_typed(data)
        except ValueError as error:
            raise StorageError(f"A checkpoint of the run is damaged ({error}): delete the run.") from error
