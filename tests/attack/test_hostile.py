"""Strings of somebody else's where people and programs read them: comment, page, hook, hosts.

Strings are drawn from the attacks that the tests of each place list, damaged and joined.
"""

import json
import os
import random
import re
from itertools import cycle
from pathlib import Path

import pytest

from ingot.agent.review.github_comment import render_comment
from ingot.agent.served.authentication import refusal_reason
from ingot.converters.lake.page import render_lake_page
from ingot.precommit import main
from tests.agent.review import test_markdown as comments
from tests.attack.mutations import mutate_bytes
from tests.converters.lake import test_page as pages

SEED = int(os.environ.get("ATTACK_SEED", "1"))
ATTACKS = (*comments.ATTACKS, *pages.HOSTILE)
HOSTS = ("localhost:2024", "127.0.0.1", "[::1]", "a.example", "localhost@a.example", "http://[")
COUNTS = [1, pytest.param(400, marks=pytest.mark.attack)]


def hostile_strings(name: str, count: int) -> list[list[str]]:
    """Lists of a few strings each."""
    dice = random.Random(f"{name}:{SEED}")
    return [[_string(dice) for _ in range(dice.randrange(1, 8))] for _ in range(count)]


def _string(dice: random.Random) -> str:
    text = "".join(dice.choice(ATTACKS) for _ in range(dice.choice((1, 1, 2))))
    if dice.random() < 0.6:
        data = mutate_bytes(text.encode("utf-8", "surrogatepass")[:300], dice)[
            :300
        ]  # more than fits a comment
        text = data.decode("utf-8", "replace")
    return re.sub(r"(?<!\S)=+(?!\S)", "x=", text)  # alone it is the comment's own sign


@pytest.mark.parametrize("count", COUNTS)
def test_a_comment_makes_nothing_of_them(count: int) -> None:
    for texts in hostile_strings("comment", count):
        pool = cycle(texts)
        told = render_comment(comments.filled(comments.DOCUMENT, lambda pool=pool: next(pool)))
        for renderer in comments.RENDERERS:
            page, harmless = comments.rendered(renderer, told), comments.harmless_page(renderer)
            assert page.comments == comments.COMMENTS, texts
            # A comment has a most of characters: long strings leave parts of it out.
            assert all(
                page.tags.count(tag) <= harmless.tags.count(tag) for tag in ("table", "h4", "pre")
            ), texts


@pytest.mark.parametrize("count", COUNTS)
def test_a_page_makes_nothing_of_them(count: int) -> None:
    harmless = render_lake_page([pages.hostile("a")], title="l", values={"dedup": "a"})
    for texts in hostile_strings("page", count):
        page = render_lake_page(
            [pages.hostile(text) for text in texts], title=texts[0], values={"dedup": texts[0]}
        )
        for mark in (b"<script", b"</script", b"<img", b"<svg", b"<!--", b"<iframe", b"<style"):
            assert page.lower().count(mark) == harmless.lower().count(mark), (mark, texts)


@pytest.mark.parametrize("count", COUNTS)
def test_a_served_graph_hears_programs_of_this_machine_alone(count: int) -> None:
    dice = random.Random(SEED)
    for texts in hostile_strings("host", count):
        for text in texts:
            data = mutate_bytes(dice.choice(HOSTS).encode(), dice)[:200]
            host = dice.choice((text, data.decode("latin-1")))
            if refusal_reason(host, "") == "":
                assert re.sub(r":[0-9]*$", "", host.lower()) in ("localhost", "127.0.0.1", "[::1]")


@pytest.mark.parametrize("count", COUNTS)
def test_a_hook_ends_in_a_code(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for texts in hostile_strings("hook", min(count, 100)):
        name = "".join(c for c in texts[0] if c not in "\0/" and c.isprintable())[:60]
        document = {"version": 2, "text": texts[-1], "source": {"files": texts}}
        path = Path(f"{name}.json")
        path.write_text(json.dumps(document), "utf-8", "surrogatepass")
        assert main([path.name]) in (0, 1, 2)
        told = capfd.readouterr()
        assert "Traceback" not in told.err
        shown = told.out + told.err
        assert not [sign for sign in shown if sign < " " and sign not in "\n\t"], texts
