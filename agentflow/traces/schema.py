"""`agentflow traces schema`."""


def schema() -> None:
    """Print the JSON Schema of a trajectory."""
    from graph.traces.schema import schema_text

    print(schema_text(), end="")
