"""Where assets lie on this machine."""

from pathlib import Path

from graph.assets.asset import Asset
from graph.corpus.location import cache_directory
from graph.errors import SetupError


def directory_of(asset: Asset) -> Path:
    """The folder that holds `asset`, which need not exist yet."""
    return cache_directory() / asset.kind


def is_fetched(asset: Asset) -> bool:
    """Whether `asset` lies in its place. Only a verified file is ever moved there, so its length is enough."""
    path = directory_of(asset) / asset.filename
    try:
        return path.stat().st_size == asset.size
    except OSError:
        return False


def path_of(asset: Asset) -> Path:
    """The fetched file. Raises SetupError, which says how to fetch it."""
    if not is_fetched(asset):
        raise SetupError(f"The {asset.title} is not on this machine: run `agentflow setup`.")
    return directory_of(asset) / asset.filename
