"""A real MCP server on standard input and output: a tool that works, one that fails and one without arguments."""

import os

from mcp.server.fastmcp import FastMCP

server = FastMCP("test", log_level="ERROR")


@server.tool()
def shout(text: str, times: int = 1) -> str:
    """Return the text in capitals, once or more."""
    return " ".join([text.upper()] * times)


@server.tool()
def refuse(reason: str) -> str:
    """Fail for the given reason."""
    raise ValueError(reason)


@server.tool()
def ping() -> str:
    """Say that the server is there."""
    return "pong"


@server.tool()
def end() -> str:
    """End the server without an answer."""
    os._exit(3)


if __name__ == "__main__":
    server.run()
