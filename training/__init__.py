"""Training the planner: trajectories to a new policy, and the server that answers with it. The only home of torch."""
