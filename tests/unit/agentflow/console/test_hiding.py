"""What reaches standard error when something fails."""

import logging
import traceback

from agentflow.console.hiding import hide_in_errors
from graph.known_secrets import KnownSecrets

SECRET = "hunter2-hunter2"


def test_standard_error_shows_no_key(capsys):
    hide_in_errors(KnownSecrets([SECRET]))
    try:
        raise ValueError(SECRET) from RuntimeError(f"because of {SECRET}")
    except ValueError:
        traceback.print_exc()
    logging.getLogger("somebody").warning("it is %s", SECRET)
    told = capsys.readouterr().err
    assert SECRET not in told
    assert "RuntimeError: because of [key]" in told
    assert "ValueError: [key]" in told
