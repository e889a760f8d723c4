"""What a running vLLM server is told beyond calls: which adapters to hold, and which weights.

vLLM keeps computed prefixes under (adapter name, adapter path). New content under an old pair would be answered from
the old version's cache, silently; and replacing an adapter in place changes calls that are half done. A version is
therefore never replaced: calls to the old one finish on it while new calls name the new one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from graph.errors import ConfigError, ModelError
from graph.policies.policy import split_name

_LONGEST_REASON = 300


class VLLMControl:
    """One server. Every method raises `ModelError` where the server refuses or cannot be reached."""

    def __init__(
        self, base_url: str, http: httpx.AsyncClient, *, key: str | None = None, timeout: float = 60.0
    ) -> None:
        """`base_url` ends in `/v1`, as in the configuration of a role; `timeout` is in seconds."""
        self.base_url = base_url.rstrip("/")
        self._http = http
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._key = key
        self._timeout = timeout

    async def load_adapter(self, name: str, path: Path) -> None:
        """Load the adapter in directory `path` as `name`; a call that asks for model `name` is then answered by it.

        `path` must be as the server sees it, and its last part must be `name` (see above). An adapter that is there
        already is left alone.

        Raises:
            ConfigError: a name or path that breaks this rule.
            ModelError: as every method; or the server holds this name from another path.
        """
        path = _place(name, path)
        held = (await self.adapters()).get(name)
        if held is None:
            try:
                await self.request("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)})
            except ModelError:
                # Another process may have been quicker: what counts is what the server now holds.
                if name not in await self.adapters():
                    raise
            held = (await self.adapters()).get(name)
        if held is None:
            raise ModelError(f"The server at {self.base_url} does not list {name} after loading it: is it one server?")
        if held != str(path):
            raise ModelError(
                f"The server at {self.base_url} holds {name} from {held}, not from {path}: give it another version."
            )

    async def unload_adapter(self, name: str) -> None:
        """Unload a version. Calls under way finish; later ones are refused."""
        await self.request("POST", "/v1/unload_lora_adapter", {"lora_name": name})

    async def adapters(self) -> dict[str, str]:
        """Return the server's adapters: path by name."""
        return {model["id"]: model["root"] for model in await self._models() if model.get("parent")}

    async def base_models(self) -> dict[str, str]:
        """Return what the server serves without an adapter: the model's directory or name on the hub, by name."""
        return {model["id"]: model["root"] for model in await self._models() if not model.get("parent")}

    async def _models(self) -> list[dict[str, Any]]:
        response = await self.request("GET", "/v1/models")
        try:
            listed = [{"root": model["id"], **model} for model in response.json()["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"The server at {self.base_url} does not list its models as vLLM does.") from error
        return listed

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        params: Mapping[str, str] | None = None,
        absent: bool = False,
    ) -> httpx.Response:
        """Send one request to `path`, which is absolute: some of vLLM's endpoints lie outside `/v1`.

        `absent` returns a 404 as well, where a server may lack the endpoint.
        """
        url = f"{self.base_url.removesuffix('/v1')}{path}"
        try:
            response = await self._http.request(
                method, url, json=body, params=params, headers=self._headers, timeout=timeout or self._timeout
            )
        except httpx.TransportError as error:
            raise ModelError(
                f"No answer from the model server at {url} ({type(error).__name__}): start it, or correct its address.",
                transient=True,
            ) from error
        if response.is_error and not (absent and response.status_code == 404):
            raise ModelError(f"The model server refused {url} ({response.status_code}): {self._message(response)}")
        return response

    def _message(self, response: httpx.Response) -> str:
        try:
            message = str(response.json()["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = response.text or response.reason_phrase
        if self._key:
            message = message.replace(self._key, "[key]")
        return message[:_LONGEST_REASON]


def _place(name: str, path: Path) -> Path:
    """Return the directory of a version as a server is told it.

    Raises:
        ConfigError: the name is no version's, or the directory's is another.
    """
    split_name(name)
    path = path.resolve()
    if path.name != name:
        raise ConfigError(
            f"The adapter of {name} must lie in a directory of that name, not in {path}: vLLM caches by path."
        )
    return path
