"""Whether recorded token ids are those that a model's tokenizer and chat template make.

Prompts must be exactly what the template makes of the messages. Completions are decoded and compared with the recorded
text, never the other way round: what was sampled as `he` and `llo` is encoded as `hello`, and both are right.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graph.errors import ConfigError
from graph.plain import plain_text
from graph.thought import after_thought
from graph.trace import TracedCall
from training.gate.kind import Kind

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TEMPLATE_SETTINGS = "chat_template_kwargs"
_OWN_TEMPLATE = "chat_template"
"""Fields of a request's `extra` that change how messages become a prompt."""


class TokenizerCheck:
    """Compares planner calls with one model's tokenizer, and counts how many agree."""

    def __init__(self, model: str) -> None:
        """`model` is a directory, or a name on the hub that was downloaded before: nothing is fetched.

        Raises:
            ConfigError: it cannot be loaded, or has no chat template.
        """
        self.model = model
        self.prompts = self.same_prompts = self.texts = self.same_texts = 0
        self._tokenizer, self._size = _load(model)

    def problems(self, call: TracedCall) -> Iterator[Kind]:
        """Yield what does not agree; nothing for what a call does not have."""
        ids = (*(call.prompt_ids or ()), *(call.completion_ids or ()))
        if ids and not 0 <= min(ids) <= max(ids) < self._size:
            yield Kind.VOCABULARY
        if call.prompt_ids is not None and call.messages:
            self.prompts += 1
            same = self._prompt_ids(call) == call.prompt_ids
            self.same_prompts += same
            if not same:
                yield Kind.TEMPLATE
        if call.completion_ids is not None:
            self.texts += 1
            same = self._is_text_of(call)
            self.same_texts += same
            if not same:
                yield Kind.TEXT

    def _prompt_ids(self, call: TracedCall) -> tuple[int, ...] | None:
        extra = (call.sampling or {}).get("extra")
        fields = extra if isinstance(extra, Mapping) else {}
        kwargs, template = fields.get(_TEMPLATE_SETTINGS), fields.get(_OWN_TEMPLATE)
        messages: Any = [dict(message) for message in call.messages or ()]
        try:
            ids: Any = self._tokenizer.apply_chat_template(
                messages,
                chat_template=template,
                add_generation_prompt=True,
                return_dict=False,
                **(kwargs if isinstance(kwargs, dict) else {}),
            )
        except Exception:  # noqa: BLE001 - a template is a program, and may refuse messages with any exception
            return None
        return tuple(ids)

    def _is_text_of(self, call: TracedCall) -> bool:
        ids = [token for token in call.completion_ids or () if 0 <= token < self._size]
        decoded: Any = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        text = plain_text(decoded)
        return _bare(call.text) in {_bare(text), _bare(after_thought(text))}


def _bare(text: str) -> str:
    """Return a text without what servers leave out: blanks around it, and half a character at its end."""
    return text.strip().rstrip("\ufffd").strip()


def _load(model: str) -> tuple["PreTrainedTokenizerBase", int]:
    """Return the tokenizer, and how many ids the model has: it may have more than its tokenizer."""
    try:
        from transformers import AutoConfig, AutoTokenizer  # slow to load, and an extra
    except ImportError as error:
        raise ConfigError("Checking token ids needs transformers: pip install 'agentflow[train]'.") from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    except Exception as error:  # anything may be wrong with files of others
        raise ConfigError(
            f"No tokenizer can be loaded from {model} ({_first_line(error)}): give --model the directory of the model "
            "that sampled the traces, or a name on the hub that was downloaded before."
        ) from error
    if not tokenizer.chat_template:
        raise ConfigError(f"The tokenizer of {model} has no chat template: give --model the instruct model.")
    try:
        config = AutoConfig.from_pretrained(model, local_files_only=True).get_text_config()
    except Exception:  # noqa: BLE001 - a tokenizer may stand alone, and its own size is a bound then
        config = None
    return tokenizer, max(len(tokenizer), getattr(config, "vocab_size", None) or 0)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
