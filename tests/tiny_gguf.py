"""Tiny random models in llama.cpp's format, in float32: transformers reads from them what the engine computes with."""

from pathlib import Path

import gguf
import numpy as np

_EMBED, _FEED, _HEADS, _GROUPS, LAYERS = 512, 512, 4, 2, 2
HEAD = 128
"""Numbers of a head; transformers takes no other for qwen3 from such files."""


def build_tiny_gguf(file: Path, architecture: str, *, seed: int = 0) -> Path:
    """Write a two-layer model of `architecture`: qwen2, qwen3 or llama."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_name("Tiny 4M")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(_EMBED)
    writer.add_feed_forward_length(_FEED)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_GROUPS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    vocabulary = _add_vocabulary(writer)
    for name, shape in _shapes(architecture, vocabulary).items():
        values = random.normal(1.0 if "norm" in name else 0.0, 0.05, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _shapes(architecture: str, vocabulary: int) -> dict[str, tuple[int, ...]]:
    queries, keys = _HEADS * HEAD, _GROUPS * HEAD
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocabulary, _EMBED),
        "output_norm.weight": (_EMBED,),
        "output.weight": (vocabulary, _EMBED),
    }
    for layer in range(LAYERS):
        block = {
            "attn_norm.weight": (_EMBED,),
            "attn_q.weight": (queries, _EMBED),
            "attn_k.weight": (keys, _EMBED),
            "attn_v.weight": (keys, _EMBED),
            "attn_output.weight": (_EMBED, queries),
            "ffn_norm.weight": (_EMBED,),
            "ffn_gate.weight": (_FEED, _EMBED),
            "ffn_up.weight": (_FEED, _EMBED),
            "ffn_down.weight": (_EMBED, _FEED),
        }
        if architecture == "qwen2":
            block |= {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,)}
        if architecture == "qwen3":
            block |= {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return shapes


def _add_vocabulary(writer: gguf.GGUFWriter) -> int:
    """Letters, words, one merge (llama.cpp wants some), and an end. A lone byte above ASCII would be withheld."""
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    tokens = [*letters, "Ġ", "Ċ", "Ġa", *(f"word{number}" for number in range(200)), "<|im_end|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["Ġ a"])
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_vocab_size(len(tokens))
    return len(tokens)
