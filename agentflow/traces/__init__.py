"""`agentflow traces`: one file a command."""
