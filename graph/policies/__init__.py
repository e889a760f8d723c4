"""Versions of the planner: a registry on disk, and what it takes to have a model server answer with one of them."""
