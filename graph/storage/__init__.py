"""Where runs are kept: LangGraph's checkpoints and the table of runs, in one database."""
