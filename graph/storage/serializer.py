"""Checkpoint serialisation that is small, and never runs code from a file."""

import inspect
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from graph import records, state
from graph.errors import StorageError
from graph.storage.compression import compress, decompress

_READABLE = frozenset({"null", "bytes", "bytearray", "msgpack"})
_COMPRESSED = "msgpack+zlib"
_WORTH_COMPRESSING = 1_000
"""Bytes."""


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
    """msgpack, compressed where that pays, with an allow-list: our records and LangGraph's own safe types."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=record_types())

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Encode a value; of an exception only what kind it is, as its message may repeat a key."""
        obj = type(obj).__name__ if isinstance(obj, BaseException) else obj
        kind, data = super().dumps_typed(obj)
        if kind == "msgpack" and len(data) >= _WORTH_COMPRESSING:
            return _COMPRESSED, compress(data, level=1)
        return kind, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Decode what `dumps_typed` wrote.

        Raises:
            StorageError: the value is damaged, or of an encoding that this project never writes.
        """
        kind, value = data
        try:
            if kind == _COMPRESSED:
                kind, value = "msgpack", decompress(value)
            if kind not in _READABLE:
                raise StorageError(f"The checkpoint holds {kind!r} data, which this project never writes: not read.")
            return super().loads_typed((kind, value))
        except ValueError as error:
            raise StorageError(f"A checkpoint of the run is damaged ({error}): delete the run.") from error
