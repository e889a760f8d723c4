"""The gate before training: what is wrong with traces, and what each of them can be used for. Needs no torch."""
