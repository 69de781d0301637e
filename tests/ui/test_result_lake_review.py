"""The pages of a finished result, of a lake that waits, and of a changed mapping."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: make test-more brings it")
from playwright.sync_api import expect

from tests.ui.conftest import EXAMPLES, INGOT, check_names

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Path:
    """A folder with a result, a lake in which data sets wait, and two mappings."""
    root = tmp_path_factory.mktemp("results")

    def run(*words: str) -> None:
        subprocess.run([*INGOT, *words], cwd=root, env=settings, check=True, capture_output=True)

    shutil.copytree(EXAMPLES / "lake" / "raw", root / "raw")
    shutil.copytree(EXAMPLES / "en_chats", root / "en_chats")
    shutil.copytree(EXAMPLES / "tokenizer", root / "tokenizer")
    tokens = ("--tokenizer", "tokenizer/tokenizer.json")
    run("run", "en_chats", "--out", "chats", "--mapper", "rules", "--yes", *tokens)
    limits = ("--mapper", "rules", "--min-confidence", "0.95", "--yes")
    run("lake", "run", "raw", "--out", "lake", *limits)
    mapping = json.loads((root / "chats/mapping.json").read_text())
    (root / "old.json").write_text(json.dumps(mapping))
    del mapping["messages"][0]["role"]["map"]["gpt"]
    (root / "new.json").write_text(json.dumps(mapping))
    return root


@pytest.fixture(scope="module")
def place(serve: Callable[[Path], str], results: Path) -> str:
    """The address of the page for that folder."""
    return serve(results)


def figure(page: Any, name: str) -> int:
    """A figure of the page by its name."""
    shown = page.locator(".figure").filter(has=page.locator("dt", has_text=name)).first
    return int(shown.locator("dd").inner_text().replace(",", ""))


@pytest.mark.more
def test_the_figures_of_a_result_add_up(opened: Open, place: str, results: Path) -> None:
    page = opened(place)
    page.get_by_role("link", name="Open result: chats").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("chats")
    parts = [figure(page, name) for name in ("converted", "rejected", "filtered")]
    rows = json.loads((results / "chats/manifest.json").read_text())["rows"]
    assert figure(page, "rows read") == sum(parts) == rows["read"] == 25
    histogram = page.get_by_role("img", name="24 records")
    titles = histogram.locator("title").all_text_contents()
    assert sum(int(one.split(": ")[1]) for one in titles) == 24
    check_names(page)
    reject = page.get_by_role("table", name="Rejected and filtered rows")
    expect(reject).to_contain_text("no_assistant")
    expect(reject).to_contain_text("24")


@pytest.mark.more
def test_records_are_shown_in_pages(opened: Open, place: str) -> None:
    page = opened(place.split("#")[0] + "#/")  # without its token nothing is shown
    expect(page.get_by_role("heading", level=1)).to_have_text("This page needs its token")
    page = opened(place)
    page.get_by_role("link", name="Open result: chats").click()
    section = page.get_by_role("region", name="Records", exact=True)
    expect(section.locator(".record")).to_have_count(20)
    section.get_by_role("button", name="Next").click()
    expect(section.locator(".record")).to_have_count(4)
    expect(section).to_contain_text("21–24 of 24")
    expect(section.get_by_role("button", name="Next")).to_be_disabled()


@pytest.mark.more
def test_tokens_are_texts_where_the_tokenizer_is_named(opened: Open, place: str) -> None:
    page = opened(place)
    page.get_by_role("link", name="Open result: chats").click()
    section = page.get_by_role("region", name="Tokens")
    expect(section.locator(".document").first).not_to_contain_text("<|im_start|>")
    tokenizer = section.get_by_role("textbox", name="Tokenizer")
    tokenizer.fill("tokenizer/tokenizer.json")
    tokenizer.press("Enter")
    expect(section.locator(".document").first).to_contain_text("<|im_start|>")
    trained = section.locator(".document").first.locator("mark").first
    untrained = section.locator(".document").first.locator("span:not(.no)").first
    expect(trained).to_contain_text("trained on:")  # also for those who do not see the colour
    expect(untrained).to_contain_text("not trained on:")
    line = "one => getComputedStyle(one).borderBottomStyle"
    assert trained.locator(".token").first.evaluate(line) == "solid"
    assert untrained.locator(".token").first.evaluate(line) == "dotted"


@pytest.mark.more
def test_a_data_set_of_a_lake_is_approved_and_the_next_one_opens(
    opened: Open, place: str, results: Path
) -> None:
    page = opened(place)
    page.get_by_role("link", name="Open lake: lake").click()
    waiting = page.get_by_role("table", name="Waiting for a person")
    expect(waiting).to_be_visible()
    check_names(page)
    names = waiting.locator("tbody tr td:first-child > bdi").all_text_contents()
    assert len(names) >= 2
    waiting.get_by_role("button", name=f"Open: {names[0]}", exact=True).click()
    foot = page.get_by_role("region", name="Approval")
    shown = foot.locator("bdi").first
    expect(shown).to_have_text(names[0])
    foot.get_by_role("button", name="Approve for the lake").click()
    expect(shown).to_have_text(names[1])
    foot.get_by_role("button", name="Reject").click()
    expect(shown).not_to_have_text(names[1])
    page.goto(place.split("#")[0] + "#/lake?path=lake")
    expect(waiting).not_to_contain_text(names[0])
    assert any(names[0] in str(one) for one in (results / "lake").rglob("*.json"))


@pytest.mark.more
def test_a_changed_mapping_is_reviewed(opened: Open, place: str) -> None:
    page = opened(place)
    page.get_by_role("link", name="Compare: new.json").click()
    expect(page.get_by_role("textbox", name="New mapping")).to_have_value("new.json")
    page.get_by_role("textbox", name="Old mapping").fill("old.json")
    page.get_by_role("textbox", name="Data").fill("en_chats")
    page.get_by_role("button", name="Compare", exact=True).click()
    section = page.get_by_role("region", name="Verdict")
    expect(section.locator(".level").first).to_contain_text("blocks")
    expect(section.get_by_role("heading", level=2).first).to_have_text("old.json → new.json")
    expect(section.get_by_role("table", name="Changes", exact=True)).to_contain_text("breaking")
    expect(section.get_by_role("table", name="Figures")).to_contain_text("Rows with a record")
    expect(section).to_contain_text("0 of 24 records are identical")
    expect(section).to_contain_text("This row gives no record.")
    check_names(page)


@pytest.mark.more
def test_a_file_that_is_no_mapping_is_refused_with_words(opened: Open, place: str) -> None:
    page = opened(place.split("#")[0] + "#token=" + place.split("=")[1])
    page.goto(place.split("#")[0] + "#/review")
    page.get_by_role("textbox", name="Old mapping").fill("old.json")
    page.get_by_role("textbox", name="New mapping").fill("../../etc/passwd")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
