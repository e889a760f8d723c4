"""Which names of GGUF files mean a model."""

import pytest

from graph.policies.embedded import is_named


@pytest.mark.parametrize(
    ("name", "base", "same"),
    [
        ("qwen2.5-coder-0.5b-instruct-q4_k_m", "Qwen2.5-Coder-0.5B-Instruct", True),
        ("Qwen2.5 Coder 0.5B Instruct AWQ", "Qwen2.5-Coder-0.5B-Instruct", True),
        ("Qwen2.5 Coder 1.5B Instruct GGUF", "Qwen2.5-Coder-1.5B-Instruct", True),
        ("model-IQ3_XXS", "model", True),
        ("model-BF16", "model", True),
        ("model.Q8_0", "model", True),
        ("model-q4_k", "model", True),
        ("tiny", "tiny", True),
        ("model-q4_k_m-instruct", "model", False),
        ("Model Q3 Chat", "model", False),
        ("Qwen2.5 0.5B Instruct", "Qwen2.5-0.5B", False),
        ("Qwen2.5 Coder 0.5B Instruct", "Qwen2.5-0.5B-Instruct", False),
        ("Qwen2.5 Coder 1.5B Instruct GGUF", "Qwen2.5-Coder-0.5B-Instruct", False),
        ("my-model", "model", False),
        ("model", "", False),
    ],
)
def test_a_conversion_keeps_the_name_of_its_model(name: str, base: str, same: bool) -> None:
    assert is_named(name, base) is same
