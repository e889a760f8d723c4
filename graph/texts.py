"""The texts within records: one walk that finds them all, one that changes some."""

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from graph.records import Record

T = TypeVar("T")


def collect_texts(value: Any, found: set[str], kept: Collection[str] = ()) -> None:
    """Add every text in records, tables and lists to `found`, keys of tables too.

    Args:
        value: plain JSON, or records of it.
        found: is added to.
        kept: names of fields of records whose texts and numbers are left out; records in them are not.
    """
    kind = type(value)
    if kind is str:
        found.add(value)
    elif kind is dict:
        for key, inner in value.items():
            found.add(key)
            collect_texts(inner, found, kept)
    elif kind is tuple or kind is list:
        for item in value:
            collect_texts(item, found, kept)
    elif isinstance(value, Record):
        for name, inner in value.__dict__.items():
            if name not in kept or isinstance(inner, Record):
                collect_texts(inner, found, kept)


def map_texts(value: T, change: Callable[[str], str], kept: Collection[str] = ()) -> T:
    """Return `value` with every text that `collect_texts` finds as `change` makes it.

    What does not change stays the same object. Of keys that become equal, the later are numbered.
    """
    return _mapped(value, change, kept)  # type: ignore[no-any-return]


def _mapped(value: Any, change: Callable[[str], str], kept: Collection[str]) -> Any:
    kind = type(value)
    if kind is str:
        return change(value)
    if kind is dict:
        pairs = [(change(key), _mapped(inner, change, kept)) for key, inner in value.items()]
        same = all(a is b and c is d for (a, c), (b, d) in zip(pairs, value.items(), strict=True))
        return value if same else _table(pairs)
    if kind is tuple or kind is list:
        items = [_mapped(item, change, kept) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else kind(items)
    if isinstance(value, Record):
        update = {
            name: changed
            for name, inner in value.__dict__.items()
            if (name not in kept or isinstance(inner, Record))
            and (changed := _mapped(inner, change, kept)) is not inner
        }
        return value.model_copy(update=update) if update else value
    return value  # an enumeration's member is no text


def _table(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        name, number = key, 1
        while name in table:
            number += 1
            name = f"{key} ({number})"
        table[name] = value
    return table
