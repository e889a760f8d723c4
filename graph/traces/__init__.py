"""Traces in files: reading, writing, choosing and comparing them."""
