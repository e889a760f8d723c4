"""What arrives of one answer."""

from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from graph.records import Usage


@dataclass
class Stream:
    """What has arrived of one answer."""

    text: list[str] = field(default_factory=list)
    prompt_ids: list[int] | None = None
    completion_ids: list[int] | None = None
    logprobs: list[float] | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    first_token: float | None = None
    answered: bool = False
    """The server has accepted the request: a failure from here on is one of the stream."""

    @property
    def complete(self) -> bool:
        """Whether the server said that it was done; a connection may end in mid-answer without an error."""
        return self.finish_reason is not None or self.usage.completion is not None

    def add(self, chunk: BaseMessage) -> str:
        """Take in a chunk and return its text."""
        extras = chunk.response_metadata
        if (ids := extras.get("prompt_token_ids")) is not None:
            self.prompt_ids = list(ids)
        if (ids := extras.get("token_ids")) is not None:
            self.completion_ids = [*(self.completion_ids or ()), *ids]
        if logprobs := (extras.get("logprobs") or {}).get("content"):
            self.logprobs = [*(self.logprobs or ()), *(token["logprob"] for token in logprobs)]
        self.finish_reason = extras.get("finish_reason") or self.finish_reason
        if usage := getattr(chunk, "usage_metadata", None):
            cached = (usage.get("input_token_details") or {}).get("cache_read")
            self.usage = Usage(prompt=usage["input_tokens"], completion=usage["output_tokens"], cached=cached)
        if timings := extras.get("timings"):
            fresh, cached, new = (timings.get(name) or 0 for name in ("prompt_n", "cache_n", "predicted_n"))
            self.usage = Usage(prompt=fresh + cached, cached=cached, completion=new)
        text = str(chunk.text)
        self.text.append(text)
        return text
