"""Traces of other programs, read as trajectories as far as their fields go.

What is missing stays None, and what cannot be mapped is left out: docs/traces.md says which field becomes what.
"""
