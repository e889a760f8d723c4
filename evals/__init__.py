"""Benchmarks, scorers, and the statistics that say whether one flow is better than another.

Reward and metric share one definition of "correct": a scorer turns an answer into a `Score`, for an evaluation and for
training alike. `evals.scorers.exact` decides by value, `evals.compare` counts and tests, `evals.starter` loads the
frozen set of 90 everyday questions.
"""
