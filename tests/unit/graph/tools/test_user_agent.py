"""The name that sites see."""

from importlib import metadata

import pytest

from graph.tools.user_agent import user_agent


def test_name_version_and_library_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTFLOW_CONTACT", raising=False)
    expected = (
        f"AgentFlow/{metadata.version('agentflow')} (question-answering agent) python-httpx/{metadata.version('httpx')}"
    )
    assert user_agent() == expected


def test_operator_s_contact_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFLOW_CONTACT", "ops@example.org")
    assert "(ops@example.org; question-answering agent)" in user_agent()


@pytest.mark.parametrize("contact", ["a\r\nX-Evil: 1", "caf\u00e9@example.org"])
def test_contact_that_no_header_can_hold_is_left_out(monkeypatch: pytest.MonkeyPatch, contact: str) -> None:
    monkeypatch.setenv("AGENTFLOW_CONTACT", contact)
    assert contact not in user_agent()
    assert "\n" not in user_agent()
