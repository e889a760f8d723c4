"""The layout of the tables of runs, which names its version: another one's is refused rather than misread.

The version stands in SQLite's `user_version`, and in the table's comment on PostgreSQL. Version 1, which had `runs`
alone, is brought up to date when it is opened.
"""

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    text,
)

from graph.plain import plain_text

TABLE_VERSION = 2
"""Of the tables. It grows with every change of the columns or of what they mean."""
_COMMENT = "agentflow runs, version "

_METADATA = MetaData()
RUNS = Table(
    "runs",
    _METADATA,
    Column("id", String(36), primary_key=True),
    Column("conversation", Text, index=True),
    Column("parent", Text),
    Column("question", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("stop", String(16)),
    Column("answer", Text),
    Column("turns", Integer),
    Column("seconds", Float),
    Column("error", Text),
    Column("owner", Text),
    Column("tags", JSON, nullable=False),
    Column("created", Float, nullable=False, index=True),
    Column("updated", Float, nullable=False),
    Column("trajectory", LargeBinary),
    Column("source", String(16)),
    Column("dataset", Text, index=True),
    Column("group", Text, index=True),
    Column("reward", Float),
    Column("reward_source", Text),
    comment=f"{_COMMENT}{TABLE_VERSION}",
)
_ADDED_IN_2 = ("source", "dataset", "group", "reward", "reward_source")
FACETS = Table(
    "facets",
    _METADATA,
    Column("run", String(36), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("value", Text, primary_key=True),
    Index("ix_facets_value", "kind", "value"),
    comment="What runs are found by that they may have several of: tags, tools, policies.",
)
FEEDBACK = Table(
    "feedback",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", String(36), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("verdict", String(8)),
    Column("answer", Text),
    Column("note", Text),
    Column("author", Text),
    comment="What people said of runs.",
)


KEY_CHARS = 200
"""Of a value that runs are found by: databases index no long ones."""


def key_of(value: str | None) -> str | None:
    """Return a value that runs are found by as it is stored and looked for."""
    return None if value is None else plain_text(value)[:KEY_CHARS]


def create_tables(connection: Connection) -> int:
    """Create the tables where they are missing, and return their version; 0 for one from before there were versions.

    Version 1 is left as it is: `add_columns` brings it up to date.
    """
    there = inspect(connection).has_table(RUNS.name)
    if connection.dialect.name == "sqlite":
        found = int(connection.execute(text("PRAGMA user_version")).scalar_one())
        if not there and found == 0:
            # First, as each statement may be the last: a table without a version would be refused.
            connection.execute(text(f"PRAGMA user_version={TABLE_VERSION}"))
            found = TABLE_VERSION
    else:
        comment = (inspect(connection).get_table_comment(RUNS.name)["text"] or "") if there else RUNS.comment or ""
        number = comment.removeprefix(_COMMENT)
        found = int(number) if number.isdecimal() else 0
    if found == TABLE_VERSION:
        _METADATA.create_all(connection)
    return found


def add_columns(connection: Connection) -> None:
    """Give the tables of version 1 what version 2 has more; what is there already, after a crash, is left."""
    if not inspect(connection).has_table(RUNS.name):  # its making was cut short
        _METADATA.create_all(connection)
        return
    present = {column["name"] for column in inspect(connection).get_columns(RUNS.name)}
    for name in _ADDED_IN_2:
        if name not in present:
            kind = RUNS.c[name].type.compile(connection.dialect)
            connection.execute(text(f'ALTER TABLE {RUNS.name} ADD COLUMN "{name}" {kind}'))
    if connection.dialect.name == "postgresql":
        wider = ", ".join(f"ALTER COLUMN {name} TYPE TEXT" for name in ("conversation", "parent"))
        connection.execute(text(f"ALTER TABLE {RUNS.name} {wider}"))
    _METADATA.create_all(connection)
    for index in RUNS.indexes:
        index.create(connection, checkfirst=True)


def note_version(connection: Connection) -> None:
    """Note that the tables are up to date: the last thing, as a crash before it must not be taken for the end."""
    if connection.dialect.name == "sqlite":
        connection.execute(text(f"PRAGMA user_version={TABLE_VERSION}"))
    else:
        connection.execute(text(f"COMMENT ON TABLE {RUNS.name} IS '{_COMMENT}{TABLE_VERSION}'"))
