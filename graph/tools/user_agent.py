"""How the tools that fetch pages name themselves to the sites they visit."""

import os
from functools import cache
from importlib import metadata


def user_agent() -> str:
    """The User-Agent header: AgentFlow, its version and how its operator can be reached.

    Wikipedia and other sites ask robots for a contact and refuse the names that HTTP libraries give themselves.
    AGENTFLOW_CONTACT (an address or a page) is the operator's; without it, the project's own page is named.
    """
    contact = os.environ.get("AGENTFLOW_CONTACT", "").strip()
    if not (contact.isascii() and contact.isprintable()):
        contact = ""
    version, home = _project()
    about = "; ".join(part for part in (contact, home, "question-answering agent") if part)
    return f"AgentFlow/{version} ({about}) python-httpx/{metadata.version('httpx')}"


@cache
def _project() -> tuple[str, str]:
    """The version, and the home page that the package's metadata gives, if any."""
    try:
        package = metadata.metadata("agentflow")
    except metadata.PackageNotFoundError:
        return "0", ""
    urls = dict(entry.split(", ", 1) for entry in package.get_all("Project-URL") or [] if ", " in entry)
    return str(package["Version"]), urls.get("Homepage", "")
