"""The errors that callers may catch, named by the boundary at which they arise.

    AgentFlowError
    ├── ConfigError       a setting, file or argument that the user must change
    │   ├── SetupError    something that `agentflow setup` fetches is missing, damaged or cannot be fetched
    │   └── CollectorError  a collector of traces that is not there, or does not take them
    ├── ModelError        a model server that failed after its retries, or refused the request
    ├── FormatError       model output that does not parse into what its role must return
    ├── ToolError         a tool that could not do what it was asked; becomes an observation, never ends a run
    ├── SandboxError      no isolation for the python tool on this machine
    ├── StorageError      the state directory or database cannot be read or written
    ├── TraceError        a trace that is damaged, or of a version that this release does not know
    └── RolloutError      rollouts that could not be scored or grouped

Every message is one sentence that says what happened and what to do about it. The command line prints it and exits with
status 2; a lower layer's exception is always kept as `__cause__`.
"""


class AgentFlowError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(AgentFlowError):
    """A setting, file or argument that the user must change."""


class SetupError(ConfigError):
    """A model or corpus that `agentflow setup` fetches is missing, damaged or cannot be fetched."""


class CollectorError(ConfigError):
    """A collector of traces is not there, or does not take them."""


class ModelError(AgentFlowError):
    """A model server failed after its retries, or refused the request. The run is failed, never graded."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        """True where the same call may well succeed when made again."""


class FormatError(AgentFlowError):
    """Model output that does not parse into the structure its role must return."""


class ToolError(AgentFlowError):
    """A tool could not do what it was asked. The message is written for the model, which sees it as an observation."""


class SandboxError(AgentFlowError):
    """No isolation level for the python tool works on this machine."""


class StorageError(AgentFlowError):
    """The state directory or database cannot be read or written."""


class TraceError(AgentFlowError):
    """A trace that is damaged, or of a schema version that this release does not know."""


class RolloutError(AgentFlowError):
    """Rollouts that could not be scored or grouped."""
