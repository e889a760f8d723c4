"""The few requests that managing an engine takes. Questions go through the same client as any other model server's."""

import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from graph.engine.home import EngineState
from graph.errors import ModelError

_HEALTH_SECONDS = 5.0
_HEALTH_TRIES = 3
_PREFILL_SECONDS = 600.0


class EngineClient:
    """Speaks to the engine that `state` describes."""

    def __init__(self, state: EngineState) -> None:
        # Imported here: httpx takes a tenth of a second that reading the configuration does not owe.
        import httpx

        self._httpx = httpx
        # A fresh connection each time: the server drops one kept-alive connection in forty without saying so.
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{state.port}",
            headers={"Authorization": f"Bearer {state.api_key}", "Connection": "close"},
            timeout=_HEALTH_SECONDS,
            trust_env=False,  # no proxy stands between a machine and itself
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # never used, and reading all certificates takes 20 ms
        )

    def healthy(self) -> bool:
        """Whether this very engine answers. A busy one is given time; a closed port is not."""
        for _ in range(_HEALTH_TRIES):
            try:
                # Unlike /health it wants the key: another server that got the port is not taken for this one.
                return self._client.get("/slots").status_code == self._httpx.codes.OK
            except self._httpx.TimeoutException:
                continue
            except self._httpx.HTTPError:
                return False
        return False

    def prefill(self, messages: Sequence[Mapping[str, str]], slot: int) -> int:
        """Have `slot` read `messages`; returns how many tokens its cache now holds of them."""
        body = {"messages": list(messages), "max_tokens": 1, "temperature": 0, "id_slot": slot}
        answer = self._post("/v1/chat/completions", body, _PREFILL_SECONDS)
        return int(answer["usage"]["prompt_tokens"])

    def save_slot(self, slot: int, filename: str) -> None:
        """Write the slot's cache to a file in the engine's slot folder."""
        self._post(f"/slots/{slot}?action=save", {"filename": filename}, _PREFILL_SECONDS)

    def restore_slot(self, slot: int, filename: str) -> None:
        """Read the slot's cache from such a file. Raises ModelError when the file does not fit this engine."""
        self._post(f"/slots/{slot}?action=restore", {"filename": filename}, _PREFILL_SECONDS)

    def _post(self, path: str, body: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        try:
            response = self._client.post(path, json=body, timeout=timeout)
            response.raise_for_status()
            answer: dict[str, Any] = response.json()
        except self._httpx.HTTPStatusError as error:
            raise ModelError(f"The embedded engine refused {path}: {error.response.text[:300]}") from error
        except (self._httpx.HTTPError, ValueError) as error:
            raise ModelError(f"The embedded engine did not answer {path} ({error}): run the command again.") from error
        return answer
