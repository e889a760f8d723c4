"""Models behind one interface: what a role asks, and one record per call."""
