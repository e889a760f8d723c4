"""The Arrow types of records, derived from the records' own fields, and values into such columns and back.

Text, numbers, lists and records are columns of their own, to be filtered and counted by any program. What has keys
of its own (arguments, artifacts, sampling, versions) is JSON text: as an Arrow struct it would gain the keys of every
other row. A null stands for None where a field may be None; elsewhere for a field that is not there, and has its
default.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from pydantic_core import from_json, to_json
from typing_extensions import is_typeddict

from graph.errors import ConfigError, TraceError
from graph.records import Record

if TYPE_CHECKING:
    from pyarrow import DataType, StructType

Convert = Callable[[Any], Any]
"""Makes a cell of a record's value, or a JSON value of a cell; neither is None."""


@dataclass(frozen=True)
class Shape:
    """How values of one type lie in Arrow."""

    arrow: "DataType"
    """The type that is written."""
    encode: Convert
    decoder: "Callable[[DataType, str], Convert]"
    """Given the type that was found and the column's name: what reads its cells. Raises `TraceError` where it cannot be
    read as this one."""
    label: str
    """The type in words."""
    fields: "Mapping[str, Field]" = field(default_factory=dict)
    """Of a record, or of the records in a list."""


@dataclass(frozen=True)
class Field:
    """A column of a record."""

    shape: Shape
    optional: bool
    """May be None."""
    required: bool
    """Has no default."""


def load_pyarrow() -> Any:
    """Import pyarrow, which is slow to load, and an extra.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ConfigError("Parquet files need pyarrow: pip install 'agentflow[parquet]'.") from error
    return pyarrow


@cache
def shape_of(kind: Any) -> Shape:
    """Return the shape of a type as records use it.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return shape_of(parts[0])
    if origin in {Union, types.UnionType}:
        return shape_of(next(part for part in parts if part is not types.NoneType))
    if origin is Literal:
        value: Any = type(parts[0])
        return shape_of(value)
    if origin is tuple:
        return _list_of(shape_of(parts[0]))
    if origin is dict:
        return _json()
    if is_typeddict(kind):
        return _struct_of({name: _field(part, required=True) for name, part in get_type_hints(kind).items()})
    if issubclass(kind, Record):
        fields = kind.model_fields.items()
        return _struct_of({name: _field(field.annotation, required=field.is_required()) for name, field in fields})
    return _plain(str if issubclass(kind, StrEnum) else kind)


def _field(kind: Any, *, required: bool) -> Field:
    return Field(shape_of(kind), optional=types.NoneType in get_args(kind), required=required)


def _plain(kind: type) -> Shape:
    """Text, a number or a truth value."""
    pa = load_pyarrow()
    is_a = pa.types
    arrow, kinds = {
        str: (pa.string(), _is_text),
        bool: (pa.bool_(), is_a.is_boolean),
        int: (pa.int64(), lambda found: is_a.is_integer(found) or is_a.is_floating(found)),
        float: (pa.float64(), lambda found: is_a.is_floating(found) or is_a.is_integer(found)),
    }[kind]

    def decoder(found: "DataType", place: str) -> Convert:
        if not (is_a.is_null(found) or kinds(found)):
            _refuse(found, arrow, place)
        # pandas makes floating-point numbers of whole ones as soon as one is missing.
        return _whole if kind is int and is_a.is_floating(found) else _same

    return Shape(arrow, _same, decoder, str(arrow))


def _json() -> Shape:
    pa = load_pyarrow()

    def decoder(found: "DataType", place: str) -> Convert:
        if not (pa.types.is_null(found) or _is_text(found)):
            _refuse(found, "JSON text", place)

        def decode(cell: str) -> Any:
            try:
                return from_json(cell)
            except ValueError as error:
                raise TraceError(f"{place}: it is no JSON ({error}).") from error

        return decode

    return Shape(pa.string(), lambda value: to_json(value).decode(), decoder, "JSON")


def _list_of(inner: Shape) -> Shape:
    pa = load_pyarrow()
    arrow = pa.list_(pa.field("element", inner.arrow, nullable=False))

    def encode(value: Sequence[Any]) -> list[Any]:
        return [inner.encode(item) for item in value]

    def decoder(found: "DataType", place: str) -> Convert:
        if pa.types.is_null(found):
            return _same
        if not (pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found)):
            _refuse(found, arrow, place)
        decode = inner.decoder(found.value_type, place)
        return _same if decode is _same else lambda value: [item if item is None else decode(item) for item in value]

    return Shape(arrow, _same if inner.encode is _same else encode, decoder, f"list of {inner.label}", inner.fields)


def _struct_of(fields: Mapping[str, Field]) -> Shape:
    pa = load_pyarrow()
    arrow = pa.struct([pa.field(name, field.shape.arrow, nullable=field.optional) for name, field in fields.items()])
    changing = {name: field.shape.encode for name, field in fields.items() if field.shape.encode is not _same}

    def encode(value: dict[str, Any]) -> dict[str, Any]:
        return value | {name: to(value[name]) for name, to in changing.items() if value.get(name) is not None}

    def decoder(found: "DataType", place: str) -> Convert:
        if pa.types.is_null(found):
            return _same
        if not pa.types.is_struct(found):
            _refuse(found, arrow, place)
        return _record_decoder(fields, found, place)

    return Shape(arrow, encode, decoder, "record", fields)


def _record_decoder(fields: Mapping[str, Field], found: "StructType", place: str) -> Convert:
    prefix = f"{place}." if place else ""
    names = {field.name: field.type for field in found}
    if unknown := names.keys() - fields.keys():
        listed = ", ".join(sorted(repr(prefix + name) for name in unknown))
        raise TraceError(f"it has columns that no trajectory has ({listed}): drop them")
    if missing := [prefix + name for name, field in fields.items() if field.required and name not in names]:
        raise TraceError(f"it lacks columns ({', '.join(missing)}): give an export of traces")
    decoders = {name: fields[name].shape.decoder(kind, prefix + name) for name, kind in names.items()}
    absent = {name for name in names if not fields[name].optional}

    def decode(value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: None if item is None else decoders[name](item)
            for name, item in value.items()
            if item is not None or name not in absent
        }

    return decode


def _is_text(found: "DataType") -> bool:
    is_a = load_pyarrow().types
    kind = found.value_type if is_a.is_dictionary(found) else found
    return bool(is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind))


def _refuse(found: "DataType", wanted: object, place: str) -> NoReturn:
    raise TraceError(f"its column {place} is of type {found}, not {wanted}")


def _same(value: Any) -> Any:
    return value


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value
