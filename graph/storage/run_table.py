"""The layout of the `runs` table, which names its version: another one's is refused rather than misread.

The version stands in SQLite's `user_version`, and in the table's comment on PostgreSQL.
"""

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    text,
)

TABLE_VERSION = 1
"""Of the table. It grows with every change of the columns or of what they mean."""
_COMMENT = "agentflow runs, version "

_METADATA = MetaData()
RUNS = Table(
    "runs",
    _METADATA,
    Column("id", String(36), primary_key=True),
    Column("conversation", String(64), index=True),
    Column("parent", String(36)),
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
    comment=f"{_COMMENT}{TABLE_VERSION}",
)


def create_table(connection: Connection) -> int:
    """Create the table where it is missing, and return its version; 0 for one from before there were versions."""
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
