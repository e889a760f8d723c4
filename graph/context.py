"""The live objects of a run: what nodes use and state never holds."""

from collections.abc import Mapping
from dataclasses import dataclass

from langgraph.cache.base import BaseCache

from graph.config import Role
from graph.deadline import Deadline
from graph.models.client import RoleModel
from graph.tools.registry import Toolbox


@dataclass(frozen=True)
class Context:
    """LangGraph's runtime context of one run."""

    run: str
    """The trajectory's id."""
    models: Mapping[Role, RoleModel]
    toolbox: Toolbox
    deadline: Deadline
    """Of the turns; the generator may follow it."""
    repeating: int | None = None
    """The turn whose tool calls were under way when the run was interrupted: they may have been started before."""
    cache: BaseCache[dict[str, object]] | None = None
    """Results of tool calls; None for no cache."""
