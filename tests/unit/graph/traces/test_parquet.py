"""What other programs make of Parquet folders is read; what cannot be is told in a sentence."""

import json

import pytest

from graph.errors import ConfigError, TraceError
from graph.trace import Trajectory
from graph.traces.parquet import VERSION_KEY, read_parquet, trace_schema
from tests.any_trajectory import realistic

pytest.importorskip("pyarrow", reason="needs the parquet extra")
import pyarrow as pa

from tests.parquet_files import read, rewritten, shards, table_of, write


@pytest.fixture(scope="module")
def some():
    return [realistic(seed, prompt_tokens=40) for seed in range(20)]


@pytest.fixture
def folder(tmp_path, some):
    return write(tmp_path / "traces", some)


# What other programs make of it


@pytest.fixture
def loaded(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="needs the train extra")
    datasets.disable_progress_bars()
    return datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))


def test_datasets_loads_the_same_values(loaded, some):
    assert loaded.num_rows == len(some)
    for row, found in zip(loaded, some, strict=True):
        plan = found.calls_of("planner")[0]
        same = next(call for call in row["calls"] if call["role"] == "planner")
        assert (row["question"], row["reward"], row["tags"]) == (found.question, found.reward, list(found.tags))
        assert (same["prompt_ids"], same["logprobs"]) == (list(plan.prompt_ids), list(plan.logprobs))
        assert same["messages"] == list(plan.messages)
        assert json.loads(same["sampling"]) == plan.sampling
        assert (row["conversation"], row["history"]) == (None, [])


def test_what_datasets_saves_after_filtering_is_read(loaded, some, tmp_path):
    right = [found for found in some if found.reward == 1.0]
    assert 0 < len(right) < len(some)
    loaded.filter(lambda row: row["reward"] == 1.0).save_to_disk(str(tmp_path / "saved"), num_shards=3)
    assert read(tmp_path / "saved") == right


def test_splits_that_datasets_saves_are_read(loaded, some, tmp_path):
    loaded.train_test_split(test_size=5, shuffle=False).save_to_disk(str(tmp_path / "saved"))
    assert sorted(found.id for found in read(tmp_path / "saved")) == [found.id for found in some]


def test_what_datasets_writes_as_parquet_is_read(loaded, some, tmp_path):
    loaded.select(range(19, -1, -1)).to_parquet(str(tmp_path / "sorted.parquet"))
    assert read(tmp_path / "sorted.parquet") == some[::-1]


def test_what_pandas_writes_after_choosing_rows_is_read(folder, some, tmp_path):
    pandas = pytest.importorskip("pandas", reason="comes with datasets")
    whole = pandas.read_parquet(folder / "data")
    whole.loc[3:3, "parent_turns"] = 2
    whole[whole.reward == 1.0].to_parquet(tmp_path / "chosen.parquet")
    right = [found.model_copy(update={"parent_turns": 2}) if found is some[3] else found for found in some]
    assert read(tmp_path / "chosen.parquet") == [found for found in right if found.reward == 1.0]


def test_larger_types_and_another_order_are_read(folder, some, tmp_path):
    def larger(kind):
        if pa.types.is_string(kind):
            return pa.large_string()
        if pa.types.is_list(kind):
            return pa.large_list(larger(kind.value_type))
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(field.name, larger(field.type)) for field in reversed(list(kind))])
        return kind

    rows = table_of(folder).to_pylist()
    fields = [pa.field(field.name, larger(field.type)) for field in reversed(list(trace_schema()))]
    assert read(rewritten(tmp_path, pa.Table.from_pylist(rows, schema=pa.schema(fields)))) == some


# What is missing, unknown or damaged


def test_columns_that_are_missing_have_their_defaults(folder, some, tmp_path):
    table = table_of(folder).select(["id", "question", "turns"])
    found = read(rewritten(tmp_path, table))
    assert found == [Trajectory(id=whole.id, question=whole.question, turns=whole.turns) for whole in some]


def test_nulls_where_nothing_may_be_none_are_defaults(folder, some, tmp_path):
    table = table_of(folder)
    nulls = pa.nulls(table.num_rows)
    for name in ("tags", "prompts"):
        table = table.set_column(table.schema.get_field_index(name), name, nulls)
    assert read(rewritten(tmp_path, table)) == [found.model_copy(update={"tags": (), "prompts": {}}) for found in some]


def test_columns_without_which_there_is_no_trajectory_are_named(folder, tmp_path):
    with pytest.raises(TraceError, match=r"rewritten.parquet cannot be read as traces: it lacks columns \(question\)"):
        read(rewritten(tmp_path, table_of(folder).drop_columns(["question"])))


def test_unknown_columns_are_named(folder, tmp_path):
    table = table_of(folder)
    rows = table.to_pylist()
    for row in rows:
        row["turns"] = [turn | {"mood": "good"} for turn in row["turns"]]
    with pytest.raises(TraceError, match=r"no trajectory has \('turns.mood'\): drop them"):
        read(rewritten(tmp_path, pa.Table.from_pylist(rows)))
    with pytest.raises(TraceError, match=r"no trajectory has \('extra'\): drop them"):
        read(rewritten(tmp_path, table.append_column("extra", pa.nulls(table.num_rows))))


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("question", [1], "its column question is of type int64, not string"),
        ("tags", ["a"], "its column tags is of type string, not list"),
        ("reward", ["1"], "its column reward is of type string, not double"),
        ("parent_turns", ["1"], "its column parent_turns is of type string, not int64"),
        ("analysis", ["a"], "its column analysis is of type string, not struct"),
        ("versions", [{"a": "1"}], "its column versions is of type struct<a: string>, not JSON text"),
    ],
)
def test_columns_of_other_types_are_named(folder, tmp_path, name, column, said):
    table = table_of(folder).slice(0, 1)
    table = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
    with pytest.raises(TraceError) as error:
        read(rewritten(tmp_path, table))
    assert said in str(error.value)


def test_another_version_is_refused(folder, tmp_path):
    table = table_of(folder).replace_schema_metadata({VERSION_KEY: b"2"})
    with pytest.raises(TraceError, match="is of schema version '2', and this release reads version 1"):
        read(rewritten(tmp_path, table))


def test_damaged_rows_are_told_and_skipped(folder, some, tmp_path):
    rows = table_of(folder).to_pylist()
    rows[1]["calls"][1]["logprobs"].pop()
    rows[2]["calls"][0]["sampling"] = '{"temperature": '
    rows[3]["schema_version"] = 2
    rows[4]["stop"] = "TIRED"
    rows[5]["seconds"] = float("nan")
    rows[6]["versions"] = "[1]"
    path = rewritten(tmp_path, pa.Table.from_pylist(rows, schema=trace_schema()))
    damages = []
    assert list(read_parquet(path, damages.append)) == [some[0], *some[7:]]
    assert [damage.where for damage in damages] == [f"{path}, row {number}" for number in range(2, 8)]
    assert [damage.kind for damage in damages] == [
        "unequal_lengths",
        "json_invalid",
        "version",
        "enum",
        "finite_number",
        "dict_type",
    ]
    assert damages[1].why.startswith("calls.sampling: it is no JSON")


def test_a_file_that_was_cut_or_is_something_else_is_told(folder, tmp_path):
    (shard,) = shards(folder)
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(TraceError, match=r"train-00000-of-00001.parquet is damaged \(.+\): write it again"):
        read(folder)
    (tmp_path / "data-0.arrow").write_text("hello")
    with pytest.raises(TraceError, match=r"data-0\.arrow is damaged"):
        read(tmp_path / "data-0.arrow")


def test_bytes_that_changed_in_the_middle_are_told(folder):
    (shard,) = shards(folder)
    data = bytearray(shard.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2000] = bytes(2000)
    shard.write_bytes(data)
    with pytest.raises(TraceError, match="is damaged"):
        read(folder)


def test_a_shard_that_is_missing_is_told(tmp_path, some):
    folder = write(tmp_path / "traces", some, group_bytes=100_000, shard_bytes=1)
    shards(folder)[1].unlink()
    with pytest.raises(TraceError, match=r"has \d+ of the \d+ files of 'train': copy the whole folder"):
        read(folder)


def test_places_without_traces_are_told(tmp_path):
    with pytest.raises(ConfigError, match="holds no Parquet file"):
        read(tmp_path)
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(TraceError, match="is no whole folder of `datasets`"):
        read(tmp_path)
