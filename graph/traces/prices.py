"""What model calls cost, in US dollars, as far as somebody knows.

The prices of agentflow.toml come first, by the name that the call records of its model. Otherwise the bundled data of
`genai-prices` is asked, at the time of the call, and only for names that say who was paid: `provider:model`, as the
configuration names the models of hosted providers. A server at an address of its own may call its model what it likes,
so a name without a provider has no price, however well it is known; nor has a call that was answered by a policy or
came back with token ids, which a server of one's own did. What has no price is unknown, and never free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from graph.trace import TracedCall
from graph.traces.price import Price

_PROVIDERS: Final = {
    "anthropic": "anthropic",
    "azure_openai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "google_genai": "google",
    "google_vertexai": "google",
    "groq": "groq",
    "mistralai": "mistral",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "together": "together",
    "xai": "x-ai",
}
"""LangChain's names of providers, and genai-prices' own. That package also guesses who is meant, and takes
`azure_openai` for OpenAI."""
_MILLION = 1e6


@dataclass(frozen=True)
class Prices:
    """Knows prices."""

    configured: Mapping[str, Price] = field(default_factory=dict)
    """By the name of the model."""

    def cost(self, call: TracedCall) -> float | None:
        """Return what a call cost; None where its tokens or their price are unknown.

        A call that does not say how much of its prompt was cached is charged as if nothing was.
        """
        usage = call.usage
        if call.model is None or usage.prompt is None or usage.completion is None:
            return None
        cached = usage.cached or 0
        if cached > usage.prompt:
            return None
        price = self.configured.get(call.model)
        if price is None:
            return _known_price(call, usage.prompt, cached, usage.completion)
        of_cached = price.prompt if price.cached is None else price.cached
        spent = (usage.prompt - cached) * price.prompt + cached * of_cached + usage.completion * price.completion
        return spent / _MILLION


def _known_price(call: TracedCall, prompt: int, cached: int, completion: int) -> float | None:
    provider, _, model = (call.model or "").partition(":")
    if provider not in _PROVIDERS or call.policy or call.completion_ids is not None or call.at is None:
        return None
    import genai_prices  # slow to load; it fetches nothing unless its UpdatePrices is started

    usage = genai_prices.Usage(input_tokens=prompt, cache_read_tokens=cached, output_tokens=completion)
    try:
        when = datetime.fromtimestamp(call.at, UTC)
        found = genai_prices.calc_price(usage, model, provider_id=_PROVIDERS[provider], genai_request_timestamp=when)
    except (LookupError, ValueError, OverflowError, OSError):  # a model that it does not know; a time that cannot be
        return None
    return float(found.total_price)
