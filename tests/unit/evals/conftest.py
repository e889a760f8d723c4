"""A busy machine is not a failure: property tests here have no deadline."""

from hypothesis import settings

settings.register_profile("evals", deadline=None)
settings.load_profile("evals")
