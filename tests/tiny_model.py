"""A tiny random language model in Hugging Face format: real files, for transformers, TRL, PEFT and vLLM alike."""

import re
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

_REPOSITORY = Path(__file__).resolve().parents[1]

_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tiny_model(directory: Path, *, seed: int = 0, vocab_size: int = 1024, scale: float = 0.08) -> Path:
    """Write a two-layer Qwen3 of about half a million float32 parameters and its tokenizer to `directory`.

    The same arguments and repository text give the same files. `scale` is the standard deviation of the weights: large
    enough that the next-token distribution is far from uniform and a change of an adapter shows.
    """
    tokenizer = _train_tokenizer(vocab_size)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        initializer_range=scale,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        # Defaults such as instruct models bring along: no call of ours may fall under them.
        do_sample=True,
        top_k=20,
        top_p=0.8,
        repetition_penalty=1.05,
    )
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def _train_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE over what the repository ships: the prompts, and the sources of the graph."""
    files = sorted([*_REPOSITORY.glob("graph/prompts/**/*.md"), *_REPOSITORY.glob("graph/**/*.py")])
    text = [re.sub(r"[ \t]+", " ", file.read_text(encoding="utf-8")) for file in files]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(text, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )
    tokenizer.chat_template = _CHAT_TEMPLATE
    return tokenizer
