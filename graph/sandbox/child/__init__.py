"""What runs in the sandbox's own processes: standard library only, started with an isolated interpreter and no `site`.

Modules here import each other relatively, because inside the sandbox the package is found as `child`, without `graph`.
They avoid `typing`, `json`, `re` and `dataclasses`: each run pays for every import.
"""
