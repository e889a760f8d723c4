"""A scripted server that holds adapters and the version of its weights, as vLLM does."""

from typing import Any

from tests.fakes import ScriptedServer


class PolicyServer(ScriptedServer):
    """Serves the model `planner` from `/models/base`, and the adapters that it was told to load."""

    def __init__(self, *args: Any, weights: str | None = None, **options: Any) -> None:
        """`weights` is the version that `/weight_info` tells; None for a server without that endpoint."""
        super().__init__(*args, models=("planner",), owned_by="vllm", **options)
        self.adapters: dict[str, str] = {}
        self.loads: list[str] = []
        self.load_refusal: str | None = None
        """What loading is refused with."""
        self.weights = weights

    def endpoint(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any] | None:
        match path.removeprefix("/v1"):
            case "/models":
                base: dict[str, Any] = {
                    "id": "planner",
                    "root": "/models/base",
                    "parent": None,
                    "max_model_len": self.context,
                }
                held = [{"id": name, "root": root, "parent": "planner"} for name, root in self.adapters.items()]
                return 200, {"data": [{**model, "owned_by": "vllm"} for model in (base, *held)]}
            case "/load_lora_adapter":
                assert body is not None
                self.loads.append(body["lora_name"])
                if body["lora_name"] in self.adapters:
                    return 400, {
                        "error": {"message": f"The lora adapter '{body['lora_name']}' has already been loaded."}
                    }
                if self.load_refusal:
                    return 400, {"error": {"message": self.load_refusal}}
                self.adapters[body["lora_name"]] = body["lora_path"]
                return 200, "Success"
            case "/unload_lora_adapter":
                assert body is not None
                del self.adapters[body["lora_name"]]
                return 200, "Success"
            case "/weight_info" if self.weights is not None:
                return 200, {"weight_version": self.weights}
            case "/chat/completions" if body and body["model"] not in {"planner", *self.adapters}:
                return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        return None
