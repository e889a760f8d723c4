"""The command line: thin, composes the rest; the only place that prints."""
