"""The AGENTFLOW_ variables."""

import difflib
import os
from collections.abc import Collection, Sequence

from graph.errors import ConfigError

PREFIX = "AGENTFLOW_"
_OTHERS = ("AGENTFLOW_CACHE_DIR", "AGENTFLOW_CONTACT", "AGENTFLOW_DEBUG", "AGENTFLOW_VLLM_PYTHON")
"""Variables of ours that are no settings."""


def check_variables(settings: Sequence[str], keys: Collection[str]) -> None:
    """Refuse variables with our prefix that nothing would read.

    Args:
        settings: all settings by dotted path.
        keys: names of the variables that hold keys.

    Raises:
        ConfigError: one is misspelt.
    """
    tables = {path.partition(".")[0] for path in settings}
    for name in os.environ:
        upper = name.upper()
        if not upper.startswith(PREFIX) or upper in _OTHERS or name in keys:
            continue
        own = upper.removeprefix(PREFIX)
        if own.partition("__")[0].lower() not in tables:
            known = [path.replace(".", "__").upper() for path in settings]
            close = difflib.get_close_matches(own, [*known, *(other.removeprefix(PREFIX) for other in _OTHERS)], n=1)
            hint = f"did you mean {PREFIX}{close[0]}?" if close else f"write {PREFIX}TABLE__SETTING, or unset it."
            raise ConfigError(f"There is no setting for the variable {name}: {hint}")
