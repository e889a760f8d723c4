"""How the tools that fetch pages name themselves to the sites they visit."""

import os
from importlib import metadata


def user_agent() -> str:
    """The User-Agent header: AgentFlow, its version and how its operator can be reached.

    Wikipedia and other sites ask robots for a contact and refuse the names that HTTP libraries give themselves. The
    contact is AGENTFLOW_CONTACT, an address or a page of the operator; without it, none is named.
    """
    contact = os.environ.get("AGENTFLOW_CONTACT", "").strip()
    if not (contact.isascii() and contact.isprintable()):
        contact = ""
    about = "; ".join(part for part in (contact, "question-answering agent") if part)
    return f"AgentFlow/{_version()} ({about}) python-httpx/{metadata.version('httpx')}"


def _version() -> str:
    try:
        return metadata.version("agentflow")
    except metadata.PackageNotFoundError:
        return "0"
