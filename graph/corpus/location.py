"""Where the corpus index lives when no path is configured."""

import os
from pathlib import Path

import platformdirs


def cache_directory() -> Path:
    """The user's cache directory for AgentFlow; AGENTFLOW_CACHE_DIR replaces it whole."""
    override = os.environ.get("AGENTFLOW_CACHE_DIR")
    return Path(override).expanduser() if override else platformdirs.user_cache_path("agentflow")


def default_index_path() -> Path:
    """The index of the starter corpus that `agentflow setup` builds."""
    return cache_directory() / "corpus" / "starter.db"
