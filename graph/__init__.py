"""The flow: state, nodes, tools, models, memory, traces and checkpoints. Imports nothing else of this project."""
