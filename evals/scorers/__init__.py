"""Scorers: functions from an answer and its references to a `Score`, without state, safe in any thread."""
