"""Tools that the executor can call."""
