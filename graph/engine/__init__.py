"""The embedded engine: a GGUF model served on loopback by llama.cpp's own server."""
