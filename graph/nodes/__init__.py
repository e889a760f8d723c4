"""The nodes of the flow: asynchronous functions `(state, runtime) -> partial update`."""
