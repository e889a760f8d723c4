"""Arrow types follow the records' fields."""

import pytest

from graph.records import Record
from graph.trace import Trajectory
from graph.traces.arrow_types import shape_of
from graph.traces.parquet import VERSION_KEY, trace_schema

pa = pytest.importorskip("pyarrow", reason="needs the parquet extra")


def test_columns_are_the_fields_of_a_trajectory():
    schema = trace_schema()
    assert schema.names == list(Trajectory.model_fields)
    assert schema.metadata == {VERSION_KEY: b"1"}
    assert (schema.field("reward").type, schema.field("reward").nullable) == (pa.float64(), True)
    assert (schema.field("question").type, schema.field("question").nullable) == (pa.string(), False)
    call = schema.field("calls").type.value_type
    assert call.field("prompt_ids").type.value_type == pa.int64()
    assert call.field("logprobs").type.value_type == pa.float64()
    assert call.field("sampling").type == pa.string()


def test_a_field_that_a_record_gains_needs_no_second_place():
    class Inner(Record):
        flag: bool | None
        weights: tuple[tuple[float, ...], ...] | None = None

    class Outer(Record):
        inner: Inner | None
        counts: dict[str, int]

    shape = shape_of(Outer)
    outer = Outer(inner=Inner(flag=None, weights=((1.5,), ())), counts={"a": 1})
    cells = pa.array([shape.encode(outer.model_dump())], type=shape.arrow)
    back = shape.decoder(cells.type, "")(cells.to_pylist()[0])
    assert Outer.model_validate(back) == outer
