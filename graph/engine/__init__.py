"""The embedded engine: a GGUF model served on loopback by llama.cpp's own server, in a process of its own.

It starts when a command first needs it, is shared by every later one, and stops when idle. Only its process imports
xllamacpp; to everybody else it is one more OpenAI-compatible server.
"""

from graph.engine.control import engine_status, ensure_engine, running_engines, stop_engine, warm_slots
from graph.engine.info import ROLE_SLOTS, EngineInfo
from graph.engine.model_file import AdapterFile
from graph.engine.settings import LocalSettings

__all__ = [
    "ROLE_SLOTS",
    "AdapterFile",
    "EngineInfo",
    "LocalSettings",
    "engine_status",
    "ensure_engine",
    "running_engines",
    "stop_engine",
    "warm_slots",
]
