"""What `policies.use` means at this moment."""

from collections.abc import Callable

from graph.errors import ConfigError
from graph.policies.policy import Policy
from graph.policies.registry import PolicyRegistry
from graph.policies.settings import BASE, PROMOTED, PoliciesSettings

OnNotice = Callable[[str], None]


class Choice:
    """The policy that the settings and the registry ask for."""

    def __init__(self, settings: PoliciesSettings, *, on_notice: OnNotice | None = None) -> None:
        self.registry = PolicyRegistry(settings.directory)
        self._use = settings.use
        self._on_notice = on_notice
        self._told: set[str] = set()
        self._known: dict[str, Policy] = {}
        """Versions never change: each is read once."""

    @property
    def explicit(self) -> bool:
        """Whether a version was asked for by name."""
        return self._use not in {PROMOTED, BASE}

    def wanted(self) -> Policy | None:
        """Return the policy to use; None for the model as it is.

        Raises:
            ConfigError: it is not in the registry, or damaged.
        """
        if self._use == BASE:
            return None
        name = self._use if self.explicit else self.registry.promoted()
        if name is None:
            return None
        if name not in self._known:
            self._known[name] = self.registry.get(name)
        return self._known[name]

    def unusable(self, policy: Policy, why: str) -> None:
        """Say that a policy cannot be used here: an error where it was asked for, else a notice, once.

        Raises:
            ConfigError: it was asked for by name.
        """
        if self.explicit:
            raise ConfigError(f"The policy {policy.full_name} cannot be used: {why}.")
        if self._on_notice is not None and policy.full_name not in self._told:
            self._on_notice(f"The promoted policy {policy.full_name} is not used, but the model as it is: {why}.")
        self._told.add(policy.full_name)
