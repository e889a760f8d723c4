"""ChatOpenAI, with what the servers say beyond OpenAI's own fields."""

from typing import Any

from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI

_EXTRAS = ("prompt_token_ids", "timings")


class TokenIdChat(ChatOpenAI):
    """Keeps the token ids of vLLM and the timings of llama.cpp, which ChatOpenAI drops.

    They appear in the `response_metadata` of streamed chunks: `prompt_token_ids` (of the whole prompt, once),
    `token_ids` (of that chunk) and `timings` (once, last). Ids are the server's; text is never tokenised again.
    """

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if converted is None:
            return None
        extras = {name: chunk[name] for name in _EXTRAS if chunk.get(name) is not None}
        if (choices := chunk.get("choices")) and choices[0].get("token_ids") is not None:
            extras["token_ids"] = choices[0]["token_ids"]
        if extras:
            converted.generation_info = {**(converted.generation_info or {}), **extras}
        return converted
