"""What `agentflow setup` fetches: the embedded models and the starter corpus' data."""

from graph.assets.asset import Asset, HubFile, Part
from graph.assets.attribution import ATTRIBUTION
from graph.assets.fetch import ensure
from graph.assets.partial import Progress
from graph.assets.place import directory_of, is_fetched, path_of
from graph.assets.registry import ASSETS, CORPUS, DEFAULT_MODEL, MODELS

__all__ = [
    "ASSETS",
    "ATTRIBUTION",
    "CORPUS",
    "DEFAULT_MODEL",
    "MODELS",
    "Asset",
    "HubFile",
    "Part",
    "Progress",
    "directory_of",
    "ensure",
    "is_fetched",
    "path_of",
]
