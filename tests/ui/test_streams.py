"""Answers that come in parts: the words of a model, an end too early, a conversion that goes on."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: make test-more brings it")
from playwright.sync_api import expect

Begin = Callable[..., Any]


def event(name: str, data: Any) -> str:
    """An event of a stream."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def say(page: Any, line: str) -> None:
    """Send a line of the conversation."""
    page.get_by_role("textbox", name="Command or question").fill(line)
    page.keyboard.press("Enter")


@pytest.mark.more
def test_words_of_a_model_come_as_text_and_can_be_withdrawn(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.evaluate(
        """() => {
          const answer = new ReadableStream({ start: (to) => { window.to = to; } });
          window.fetch = async () => new Response(answer);
        }"""
    )

    def send(text: str) -> None:
        """Send a text in two parts, cut inside a character where one has several bytes."""
        page.evaluate(
            """text => {
              const bytes = new TextEncoder().encode(text);
              window.to.enqueue(bytes.slice(0, 35));
              window.to.enqueue(bytes.slice(35));
            }""",
            text,
        )

    say(page, "use the other reply")
    words = page.locator(".said.model")
    send('event: word\ndata: {"text": "I take ßßßß "}\n\n')
    send(event("word", {"text": "<b>it</b>"}))
    expect(words).to_have_text("I take ßßßß <b>it</b>")
    send(event("word", {"text": None}) + event("other", {}))
    expect(words).to_have_text("")
    send(event("word", {"text": "No."}))
    expect(words).to_have_text("No.")
    expect(page.locator(".page")).to_have_attribute("aria-busy", "true")


@pytest.mark.more
def test_a_stream_that_ends_too_early_is_told(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    body = event("word", {"text": "<b>I take</b>"})
    page.route("**/say", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    say(page, "use the other reply")
    expect(page.get_by_role("alert")).to_contain_text("the server ended its answer")
    page.unroute("**/say")
    say(page, "set assistant reply_b")  # and the page goes on
    expect(page.locator(".zone[data-target=assistant] .chip")).to_have_text("reply_b")


@pytest.mark.more
def test_an_error_of_a_stream_says_where_and_what_to_do(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    told = {"where": "model <i>m</i>", "problem": "is not reachable", "hint": "start it"}
    body = event("error", {"error": told})
    page.route("**/say", lambda route: route.fulfill(body=body, content_type="text/event-stream"))
    say(page, "use the other reply")
    expect(page.get_by_role("alert")).to_contain_text("model <i>m</i>: is not reachable")
    expect(page.get_by_role("alert")).to_contain_text("start it")


@pytest.mark.more
def test_a_conversion_goes_on_where_the_page_was_opened_again(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    left = [True, True]

    def answer(route: Any) -> None:
        view = route.fetch().json()
        ended = not left
        done = "results/reopened" if ended else None
        route.fulfill(json=view | {"converting": bool(left and left.pop()), "done": done})

    page.route("**/api/onboard/*", answer)
    page.reload()
    state = page.get_by_role("region", name="Approval").locator(".state")
    expect(state).to_contain_text("Converting")
    expect(page.get_by_role("button", name="Approve and convert")).to_be_disabled()
    expect(page.get_by_role("link", name="Open result")).to_be_visible()
    expect(page.get_by_role("button", name="Approve and convert")).to_be_enabled()
