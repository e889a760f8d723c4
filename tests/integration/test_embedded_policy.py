"""An adapter on the embedded engine gives the log-probabilities that transformers and PEFT give."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("xllamacpp", reason="needs the local extra")
pytest.importorskip("torch", reason="needs the train extra")

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from agentflow.main import app
from graph.config import FlowConfig, Role
from graph.deadline import Deadline
from graph.engine import EngineInfo, LocalSettings, ensure_engine, running_engines, stop_engine
from graph.engine.model_file import model_file
from graph.errors import ConfigError
from graph.models.factory import open_models
from graph.policies.embedded import policy_engine
from graph.policies.policy import Policy
from graph.policies.registry import PolicyRegistry
from graph.prompt import Message
from graph.records import ModelCall
from tests.tiny_gguf import HEAD, build_tiny_gguf

# peft asks transformers by the old name
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")

_PARTS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
_VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "rslora in bfloat16": {"use_rslora": True, "dtype": torch.bfloat16},
    "patterns in float16": {
        "rank_pattern": {"q_proj": 4, "layers.1.mlp.up_proj": 2},
        "alpha_pattern": {"mlp.*": 3, "k_proj": 40},
        "target_modules": [*_PARTS, "lm_head"],
        "dtype": torch.float16,
    },
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache directory of this test alone, whose engines end with it."""
    monkeypatch.setenv("AGENTFLOW_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    stop_engine()


def policy(version: int = 1, **more: Any) -> Policy:
    return Policy(name="planner", version=version, kind="adapter", base_model="/models/tiny", **more)


def base_of(file: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()


def write_adapter(base: Any, directory: Path, *, strength: float, seed: int = 0, **options: Any) -> Path:
    """Write a random adapter of all linear layers."""
    dtype = options.pop("dtype", torch.float32)
    config = {"r": 8, "lora_alpha": 16, "target_modules": _PARTS, "task_type": "CAUSAL_LM"} | options
    torch.manual_seed(seed)
    adapted = get_peft_model(base, LoraConfig(**config))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, strength)
    adapted.save_pretrained(str(directory), save_embedding_layers=False)
    adapted.unload()
    file = directory / "adapter_model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(file).items()}, file)
    return directory


def top(info: EngineInfo, ids: list[int]) -> dict[int, float]:
    """The engine's most probable next tokens."""
    body = {"prompt": ids, "n_predict": 1, "n_probs": 20, "temperature": 0, "cache_prompt": False, "id_slot": 0}
    answer = httpx.post(
        f"http://127.0.0.1:{info.port}/completion",
        headers={"Authorization": f"Bearer {info.api_key}", "Connection": "close"},
        json=body,
        timeout=120,
    ).raise_for_status()
    return {found["id"]: found["logprob"] for found in answer.json()["completion_probabilities"][0]["top_logprobs"]}


@torch.no_grad()
def gap(model: Any, ids: list[int], found: dict[int, float]) -> float:
    """The largest difference to the model's own forward pass."""
    expected = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
    return max(abs(expected[token].item() - logprob) for token, logprob in found.items())


def scaled(model: Any, factor: float) -> None:
    for module in model.modules():
        if isinstance(module, LoraLayer):
            module.scaling["default"] *= factor


@torch.no_grad()
def with_rows_of_llama(model: Any, head: int) -> None:
    """Put the rows of every query's and key's B into the order that a `llama` file has them in."""
    for name, parameter in model.named_parameters():
        if "lora_B" in name and ("q_proj" in name or "k_proj" in name):
            rows, rank = parameter.shape
            parameter.copy_(parameter.reshape(rows // head, 2, head // 2, rank).transpose(1, 2).reshape(rows, rank))


@pytest.mark.parametrize("variant", _VARIANTS)
@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "llama"])
async def test_an_adapter_is_applied_exactly(cache: Path, tmp_path: Path, architecture: str, variant: str) -> None:
    file = build_tiny_gguf(tmp_path / "tiny.gguf", architecture)
    base = base_of(file)
    directory = write_adapter(base, tmp_path / "planner@v1", strength=0.1, **_VARIANTS[variant])
    settings = LocalSettings(model=str(file), threads=1, context_per_slot=512)
    ids = [7, 200, 31, 90, 14, 2, 77, 150, 33, 91, 120, 5]
    engine = await policy_engine(settings, policy(), directory)
    found = top(engine, ids)
    assert gap(base, ids, top(ensure_engine(settings), ids)) < 0.01
    adapted = PeftModel.from_pretrained(base, str(directory)).eval()
    assert gap(adapted, ids, found) < 0.01
    with adapted.disable_adapter():
        assert gap(adapted, ids, found) > 0.5, "not applied"
    for factor in (0.5, 4.0):  # half the scale, then twice
        scaled(adapted, factor)
        assert gap(adapted, ids, found) > 0.5, "another scale"
    scaled(adapted, 0.5)
    with_rows_of_llama(adapted, HEAD)
    assert gap(adapted, ids, found) > 0.5, "queries and keys in another order"


@pytest.mark.engine
async def test_an_adapter_of_the_embedded_model(embedded: LocalSettings, tmp_path: Path) -> None:
    """Its weights are of 4 to 6 bits, and llama.cpp rounds what they are multiplied with to 8: 0.16 without adapter."""
    base = base_of(model_file(embedded).path)
    directory = write_adapter(base, tmp_path / "planner@v1", strength=0.03)
    ids = [785, 6722, 315, 9625, 374, 12095, 13, 576, 6722, 315, 15344, 374]  # two sentences on capitals
    of_it = policy().model_copy(update={"base_model": "Qwen/Qwen2.5-Coder-0.5B-Instruct"})
    found = top(await policy_engine(embedded, of_it, directory), ids)
    adapted = PeftModel.from_pretrained(base, str(directory)).eval()
    assert gap(adapted, ids, found) < 0.6
    with adapted.disable_adapter():
        assert gap(adapted, ids, found) > 2, "not applied"
    for factor in (0.5, 4.0):
        scaled(adapted, factor)
        assert gap(adapted, ids, found) > 1.5, "another scale"


@pytest.fixture
def tiny(cache: Path, tmp_path: Path) -> LocalSettings:
    """A tiny model to serve."""
    file = build_tiny_gguf(tmp_path / "tiny.gguf", "qwen2")
    return LocalSettings(model=str(file), threads=1, context_per_slot=512)


@pytest.fixture
def adapter(tiny: LocalSettings, tmp_path: Path) -> Path:
    return write_adapter(base_of(Path(tiny.model)), tmp_path / "planner@v1", strength=0.1)


async def test_each_policy_has_an_engine_of_its_own(tiny: LocalSettings, adapter: Path) -> None:
    told: list[str] = []
    plain = ensure_engine(tiny)
    first = await policy_engine(tiny, policy(1), adapter, on_progress=told.append)
    assert told == [
        "Converting planner@v1 for the embedded model",
        "Starting the embedded model tiny with planner@v1",
    ]
    assert await policy_engine(tiny, policy(1), adapter, on_progress=told.append) == first
    assert len(told) == 2
    again = await policy_engine(tiny, policy(2), adapter, on_progress=told.append)  # the same weights, another name
    assert (first.model, first.base, first.slots) == ("planner@v1", "tiny", 1)
    assert (plain.model, plain.base, plain.slots) == ("tiny", None, 6)
    assert len({plain.pid, first.pid, again.pid}) == 3
    assert {engine.pid for engine in running_engines()} == {plain.pid, first.pid, again.pid}
    ids = [7, 200, 31, 90]
    assert top(first, ids) == top(again, ids) != top(plain, ids)
    shown = CliRunner().invoke(app, ["engine", "status"])
    assert "planner@v1 on tiny at http" in shown.stdout
    assert "1 slot of 512 tokens" in shown.stdout
    assert stop_engine()
    assert running_engines() == []


async def test_chat_is_answered_with_the_adapter_s_name(tiny: LocalSettings, adapter: Path) -> None:
    engine = await policy_engine(tiny, policy(), adapter)
    async with httpx.AsyncClient(timeout=60) as http:
        answers = await asyncio.gather(
            *(
                http.post(
                    f"{engine.base_url}/chat/completions",
                    headers={"Authorization": f"Bearer {engine.api_key}", "Connection": "close"},
                    json={
                        "model": engine.model,
                        "messages": [{"role": "user", "content": "a" * number}],
                        "max_tokens": 5,
                        "id_slot": 0,
                    },
                )
                for number in range(1, 9)
            )
        )
    assert [answer.json()["model"] for answer in answers] == ["planner@v1"] * 8


async def test_what_does_not_belong_here_is_refused(tiny: LocalSettings, adapter: Path) -> None:
    weights = policy().model_copy(update={"kind": "weights"})
    with pytest.raises(ConfigError, match=r"planner@v1 holds full weights.* serve them with vLLM"):
        await policy_engine(tiny, weights, adapter)
    of_another = policy().model_copy(update={"base_model": "Qwen/Qwen2.5-Coder-1.5B-Instruct"})
    with pytest.raises(ConfigError, match=r"was trained from Qwen/.*, but the embedded model is Tiny 4M"):
        await policy_engine(tiny, of_another, adapter)
    assert running_engines() == []


async def test_the_planner_and_nobody_else_follows_the_promotion(
    tiny: LocalSettings, adapter: Path, tmp_path: Path
) -> None:
    description = adapter / "adapter_config.json"
    fields = json.loads(description.read_text())
    description.write_text(json.dumps(fields | {"base_model_name_or_path": "/models/tiny"}))
    registry = PolicyRegistry(tmp_path / "policies")
    registry.add(adapter)
    config = FlowConfig.model_validate(
        {
            "models": {"default": {"max_tokens": 8, "temperature": 0.0}},
            "local": tiny.model_dump(),
            "policies": {"directory": str(registry.directory)},
        }
    )
    messages = [Message(role="system", content="You plan things."), Message(role="user", content="What is 40 + 2?")]

    async def call(role: Role) -> ModelCall:
        return await models.by_role[role].complete(messages, schema=None, deadline=Deadline(60), turn=0)

    calls = []
    async with open_models(config) as models:
        for promoted in (None, "planner@v1", None):
            registry.promote(promoted)
            calls += [await call("planner"), await call("verifier")]
    assert [(call.role, call.policy) for call in calls] == [
        ("planner", None),
        ("verifier", None),
        ("planner", "planner@v1"),
        ("verifier", None),
        ("planner", None),
        ("verifier", None),
    ]
    before, _, adapted, _, after, _ = (call.text for call in calls)
    assert before == after != adapted
