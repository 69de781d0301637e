"""Limits, what is spent, prices and estimates."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.agent.model.budget import (
    Ledger,
    Limits,
    Price,
    Spent,
    estimate_cost,
    estimate_tokens,
    list_price,
)
from ingot.agent.model.endpoint import ModelSettings
from ingot.converters import json_yaml
from ingot.converters.errors import BudgetReached
from ingot.converters.json_yaml import decode, encode
from ingot.converters.settings import list_settings

PRICE = Price(usd_per_million_in=2.0, usd_per_million_out=10.0)


def test_spent_adds_up_and_survives_json() -> None:
    one = Spent(calls=1, chars_sent=9, tokens_in=5, tokens_out=3, cost=0.5, seconds=1.5)
    assert one + Spent() == one
    assert (one + one).cost == 1.0
    assert (one + Spent(cost=None)).cost is None
    for spent in (one, one + Spent(cost=None), Spent()):
        assert decode(Spent, json.loads(json.dumps(encode(spent)))) == spent
    assert decode(Spent, {"calls": 2, "of a later version": 1}) == Spent(calls=2)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(calls=3), "3 of 3 calls of this run are spent (--llm-max-calls sets the limit)"),
        (Limits(tokens=1200), "1,000 of 1,200 tokens of this run are spent, and the next call"),
        (Limits(cost=0.0105), "$0.0100 of $0.0105 of this run are spent, and the next call may"),
        (Limits(seconds=60), "61 of 60 s of this run are spent"),
    ],
)
def test_the_message_names_limit_spent_and_option(limits: Limits, said: str) -> None:
    ledger = Ledger(run=limits, price=PRICE)
    ledger.add(Spent(calls=3, tokens_in=600, tokens_out=400, cost=0.01, seconds=61))
    with pytest.raises(BudgetReached) as caught:
        ledger.check(100, 101)
    assert said in str(caught.value)
    assert caught.value.exit_code == 3


def test_what_fits_exactly_is_allowed() -> None:
    limits = Limits(calls=1, tokens=200, cost=0.0012, seconds=1)
    Ledger(run=limits, data_set=limits, price=PRICE).check(100, 100)


@pytest.mark.parametrize("before", [Spent(), Spent(cost=None)])
def test_a_limit_of_cost_is_not_held_by_hope(before: Spent) -> None:
    ledger = Ledger(run=Limits(cost=1), price=None if before.cost == 0 else PRICE)
    ledger.add(before)
    with pytest.raises(BudgetReached, match=r"price unknown.*--llm-price.*--llm-max-cost"):
        ledger.check(1, 1)


def test_the_time_left_is_that_of_the_tighter_limit() -> None:
    ledger = Ledger(run=Limits(seconds=10), data_set=Limits(seconds=4))
    assert ledger.seconds_left() == 4
    ledger.open_set(Spent(seconds=1))
    ledger.add(Spent(seconds=2))
    assert ledger.seconds_left() == 1
    ledger.add(Spent(seconds=5))
    assert ledger.seconds_left() == 0
    assert Ledger().seconds_left() is None


def test_threads_that_share_a_ledger_lose_nothing() -> None:
    ledger = Ledger()
    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in range(4000):
                threads.submit(ledger.add, Spent(calls=1, cost=0.5))
    finally:
        sys.setswitchinterval(former)
    assert (ledger.run.calls, ledger.data_set.cost) == (4000, 2000.0)


@pytest.mark.parametrize(
    ("model", "same_as"),
    [
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("GPT-4.1", "gpt-4.1"),
        ("gpt-5-latest", "gpt-5"),
    ],
)
def test_a_release_has_the_price_of_its_model(model: str, same_as: str) -> None:
    assert list_price(model) == list_price(same_as) != None  # noqa: E711


@pytest.mark.parametrize("model", ["gpt-4o-mini-audio", "gpt-5-mini-tuned", "qwen3", "", "gpt"])
def test_another_model_of_a_family_has_no_known_price(model: str) -> None:
    assert list_price(model) is None


def test_prices_are_per_million() -> None:
    assert PRICE.of(1_000_000, 100_000) == 3.0


def test_an_estimate_in_words() -> None:
    listed = replace(PRICE, as_of="2026-01-31")
    told = estimate_cost(5000, 4096, 3, listed)
    assert told.startswith("about 5,000 tokens in and at most 4,096 out per call, at most 3 calls")
    assert told.endswith("at most $0.15 (price as of 2026-01-31)")
    assert PRICE.of(15_000, 12_288) == pytest.approx(0.15288)
    assert estimate_cost(10, 10, 1, None).endswith("at most 1 call, price unknown")
    small = estimate_cost(10, 10, 1, listed)
    assert small.endswith("less than $0.01 (price as of 2026-01-31)")
    free = Price(usd_per_million_in=0, usd_per_million_out=0)
    assert "at most $0.00" in estimate_cost(10, 10, 1, free)


def test_only_a_price_of_the_table_is_dated() -> None:
    assert estimate_cost(5000, 4096, 3, PRICE).endswith("at most 3 calls, at most $0.15")
    listed = list_price("gpt-4.1-mini")
    assert listed is not None
    assert f"(price as of {listed.as_of})" in estimate_cost(5000, 4096, 3, listed)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 1),
        ("The quick brown fox jumps over the lazy dog.", 9, 20),
        ("人工智能是计算机科学的一个分支", 10, 30),
        ("0123456789" * 10, 34, 101),
        (json_yaml.schema_text("llm").decode(), 700, 4500),
    ],
)
def test_about_how_many_tokens(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


@pytest.mark.more
@given(st.text(), st.text())
def test_more_text_has_no_fewer_tokens(one: str, other: str) -> None:
    assert estimate_tokens(one + other) >= estimate_tokens(one) - 1


def test_a_price_is_two_amounts_of_at_least_nothing() -> None:
    (price,) = (one for one in list_settings(ModelSettings) if one.name == "llm_price")
    read: Any = price.setting.parse
    assert read("0.15,0") == Price(usd_per_million_in=0.15, usd_per_million_out=0)
    for text in ("0.15,-0.1", "-1,1", "inf,1", "nan,1", "1"):
        with pytest.raises(ValueError, match="USD per million tokens"):
            read(text)
