"""Whether a policy belongs to the model that a server serves."""

from pathlib import Path

from graph.policies.policy import Policy


def misfit(policy: Policy, root: str) -> str | None:
    """Return why `policy` is none of the model that the server calls `root`; None where it is one.

    Both are a directory or a name on the hub. The same model lies in different places on different machines, so that
    the last part of their names decides; the files themselves are compared when they are loaded.
    """
    if policy.base_model == root or _last(policy.base_model) == _last(root):
        return None
    return f"it belongs to {policy.base_model}, and the server serves {root}"


def _last(model: str) -> str:
    path = Path(model)
    return (path.resolve() if path.is_dir() else path).name
