"""Costs against prices worked out by hand, and the cases in which nobody knows one."""

import socket
from typing import Any

import pytest

from graph.records import Usage
from graph.traces.price import Price
from graph.traces.prices import Prices
from tests.trajectories import make_call

USAGE = Usage(prompt=1_000_000, cached=400_000, completion=100_000)
SUMMER_2026 = 1_782_864_000.0


def call(**fields: Any):
    return make_call("planner", 0, **{"model": "m", "usage": USAGE, "at": SUMMER_2026} | fields)


def test_a_configured_price():
    known = Prices({"m": Price(prompt=2, cached=0.5, completion=10)})
    assert known.cost(call()) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10)
    assert Prices({"m": Price(prompt=2, completion=10)}).cost(call()) == pytest.approx(2 + 1)


def test_a_configured_price_holds_for_a_server_of_ones_own():
    own = call(policy="planner@v1", prompt_ids=(1,), completion_ids=(2,), logprobs=(-0.1,))
    assert Prices({"m": Price(prompt=1, completion=0)}).cost(own) == pytest.approx(1.0)


def test_what_is_free_by_configuration_costs_nothing_and_what_is_unknown_costs_none():
    assert Prices({"m": Price(prompt=0, completion=0)}).cost(call()) == 0.0
    assert Prices().cost(call()) is None


@pytest.mark.parametrize(
    "usage", [Usage(), Usage(prompt=1), Usage(completion=1), Usage(prompt=1, cached=2, completion=1)]
)
def test_tokens_that_are_unknown_or_cannot_be_have_no_cost(usage: Usage):
    assert Prices({"m": Price(prompt=1, completion=1)}).cost(call(usage=usage)) is None


def test_prompts_of_unknown_caching_are_charged_whole():
    usage = Usage(prompt=1_000_000, completion=0)
    assert Prices({"m": Price(prompt=2, cached=1, completion=1)}).cost(call(usage=usage)) == pytest.approx(2.0)


def test_a_hosted_providers_price_needs_no_network(monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a price was looked up on the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    # gpt-4o: 2.50 dollars a million, 1.25 of cached, 10 of written ones
    cost = Prices().cost(call(model="openai:gpt-4o"))
    assert cost == pytest.approx(0.6 * 2.5 + 0.4 * 1.25 + 0.1 * 10)


def test_a_price_is_that_of_the_time_of_the_call():
    """DeepSeek was cheaper at night until September 2025."""
    noon, night = 1_751_371_200.0, 1_751_396_400.0  # 1 July 2025, 12:00 and 19:00 UTC
    by_day, by_night = (Prices().cost(call(model="deepseek:deepseek-chat", at=at)) for at in (noon, night))
    assert by_day is not None
    assert by_night is not None
    assert by_night < by_day


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "gpt-4o"},
        {"model": None},
        {"model": "gpt-4o:latest"},
        {"model": "ollama:gpt-4o"},
        {"model": "openai:no-such-model"},
        {"model": "openai:gpt-4o", "policy": "planner@v1"},
        {"model": "openai:gpt-4o", "completion_ids": (1,)},
        {"model": "openai:gpt-4o", "at": None},
        {"model": "openai:gpt-4o", "usage": Usage()},
    ],
)
def test_a_name_that_happens_to_match_is_no_price(fields: dict[str, Any]):
    assert Prices().cost(call(**fields)) is None


def test_a_configured_price_comes_before_a_known_one():
    assert Prices({"openai:gpt-4o": Price(prompt=7, completion=0)}).cost(call(model="openai:gpt-4o")) == pytest.approx(
        7
    )
