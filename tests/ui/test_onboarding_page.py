"""From a source to records and tokens: with the mouse, with the keyboard, and back again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: make test-more brings it")
from playwright.sync_api import expect

Begin = Callable[..., Any]


def drag(page: Any, field: str, target: str, within: str = "") -> None:
    """Drop a field on a target; those that are folded unfold while something is dragged."""
    page.hover(f"[role=treeitem][data-field='{field}'] .name")
    page.mouse.down()
    page.hover(".panel.middle .head >> nth=0")
    place = f".zone[data-target='{target}'] {within}".strip()
    page.hover(place)
    page.hover(place)  # a drag is over what the second move is over
    page.mouse.up()
    settle(page)


def settle(page: Any) -> None:
    """Wait until no line is being tried."""
    page.wait_for_selector(".page:not([aria-busy])")


def chips(page: Any, target: str) -> list[str]:
    """The fields that a target has."""
    texts: list[str] = page.locator(f".zone[data-target='{target}'] .chip").all_text_contents()
    return texts


def said(page: Any) -> list[str]:
    """The lines of the conversation that the person said."""
    lines: list[str] = page.locator(".said.you bdi").all_text_contents()
    return lines


def convert(page: Any, out: str) -> None:
    """Approve, and wait for the end."""
    page.get_by_label("Output folder", exact=True).fill(out)
    page.get_by_label("Tokenizer", exact=True).fill("tokenizer/tokenizer.json")
    page.get_by_role("button", name="Approve and convert").click()
    page.get_by_role("link", name="Open result").wait_for(timeout=60_000)


@pytest.mark.more
def test_a_source_becomes_records_and_tokens_by_clicking(begun: Begin, root: Path) -> None:
    page = begun("keeper.jsonl")
    assert chips(page, "assistant") == ["reply_a"]
    drag(page, "reply_b", "assistant")
    drag(page, "voice", "system")
    assert (chips(page, "assistant"), chips(page, "system")) == (["reply_b"], ["voice"])
    assert said(page) == ["set assistant reply_b", "set system voice"]  # a person learns the lines
    convert(page, "results/clicked")
    page.get_by_role("link", name="Open result").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("results/clicked")
    shown = page.locator(".record").first
    expect(shown).to_contain_text("So that ships know it.")
    expect(page.locator(".document").first.locator("mark").first).to_contain_text("So that ships")
    assert json.loads((root / "results/clicked/manifest.json").read_text())["rows"]["read"] == 5


@pytest.mark.more
def test_the_same_by_keyboard_alone(begun: Begin, root: Path) -> None:
    page = begun("keeper.jsonl")
    press = page.keyboard.press
    press("f")
    for _ in range(4):
        press("ArrowDown")
    expect(page.locator("[role=treeitem][data-field=reply_b]")).to_be_focused()
    press("Enter")  # to the list of uses
    choose_by_arrows(page, "set assistant reply_b")
    press("Enter")
    settle(page)
    assert chips(page, "assistant") == ["reply_b"]
    assert page.evaluate("document.activeElement.dataset.key") == "use reply_b"  # the focus stays
    press("Escape")
    press("/")
    page.keyboard.type("set system vo")
    press("Tab")
    press("Enter")
    settle(page)
    assert chips(page, "system") == ["voice"]
    tab_to(page, "Output folder")
    press("ControlOrMeta+A")
    page.keyboard.type("results/typed")
    tab_to(page, "Approve and convert")
    press("Enter")
    page.get_by_role("link", name="Open result").wait_for(timeout=60_000)
    tab_to(page, "Open result")
    press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("results/typed")
    assert (root / "results/typed/manifest.json").is_file()


def choose_by_arrows(page: Any, line: str) -> None:
    """Walk down a list until a line is chosen; nothing is sent on the way."""
    for _ in range(20):
        page.keyboard.press("ArrowDown")
        if page.evaluate("document.activeElement.value") == line:
            break
    assert page.evaluate("document.activeElement.value") == line
    assert said(page) == []


def tab_to(page: Any, name: str) -> None:
    """Press Tab until the control with a name has the focus."""
    read = """() => { const one = document.activeElement;
      return one.ariaLabel || one.labels?.[0]?.textContent || one.textContent; }"""
    for _ in range(200):
        if page.evaluate(read) == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {name}")


@pytest.mark.more
def test_a_wrong_field_shows_its_losses_and_undo_takes_it_back(begun: Begin) -> None:
    page = begun("en_chats")
    before = page.locator(".record").first.inner_text()
    drag(page, "conversations", "each")  # one record for each message: none has an answer
    change = page.get_by_role("region", name="Last change")
    expect(change.locator(".lost dd")).to_have_text("24")
    expect(change.locator(".difference")).to_contain_text("- user: ")
    approve = page.get_by_role("button", name="Approve and convert")
    expect(approve).to_be_disabled()
    expect(page.locator("#why-not")).not_to_be_empty()
    change.get_by_role("button", name="Undo").click()
    settle(page)
    expect(approve).to_be_enabled()
    expect(page.locator(".effect .gained dd")).to_have_text("24")
    assert page.locator(".record").first.inner_text() == before
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("r")
    settle(page)
    expect(approve).to_be_disabled()


@pytest.mark.more
def test_a_drop_that_means_nothing_is_told(begun: Begin) -> None:
    page = begun("en_chats")
    drag(page, "conversations", "text")  # a list is no text
    expect(page.locator("#live")).to_have_text("This field cannot be used here.")
    assert said(page) == []


@pytest.mark.more
def test_fields_are_added_and_cleared(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    drag(page, "voice", "user", ".add")
    assert chips(page, "user") == ["prompt", "voice"]  # as the record has them
    assert said(page) == ["set user ...,voice"]
    page.get_by_role("button", name="Clear: user message").click()
    settle(page)
    assert chips(page, "user") == []
    expect(page.locator(".change .lost dd")).to_have_text("5")


@pytest.mark.more
def test_an_alternative_is_taken(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.get_by_role("button", name="Alternatives", exact=True).click()
    columns = page.get_by_role("region", name="Alternatives").locator("li")
    expect(columns.first).to_contain_text("used now")  # beside the others, as they are judged
    expect(columns.first).to_contain_text("5/5 rows")
    other = columns.filter(has_text="pretraining text").first
    expect(other).to_contain_text("confidence 0.")
    other.get_by_role("button").click()
    settle(page)
    expect(page.locator(".bar-top .badge")).to_have_text("pretraining text")
    assert "text" in page.locator(".mapping-words dt").all_text_contents()


@pytest.mark.more
def test_a_line_that_is_no_command_says_what_to_do(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    line = page.get_by_role("textbox", name="Command or question")
    line.fill("make it better")
    line.press("Enter")
    expect(page.locator(".said.ingot").last).to_contain_text("only short commands")
    order = page.locator(".said").evaluate_all("all => all.map((one) => one.className)")
    assert order == ["said you", "said ingot"]  # the answer is below the question
    line.fill("set user pormpt")
    line.press("Enter")
    expect(page.locator(".change")).to_contain_text("Did you mean prompt?")
    line.fill("help")
    line.press("Enter")
    expect(page.locator(".commands")).to_contain_text("drop FIELD under|over N")
    line.fill("make it worse")
    line.press("Enter")
    expect(page.locator(".said.you")).to_have_count(4)
    expect(page.locator(".commands")).to_be_visible()  # what was answered stays


@pytest.mark.more
def test_a_speaker_is_given_a_role(begun: Begin) -> None:
    page = begun("en_chats")
    page.get_by_label("Role: human").select_option("drop")
    settle(page)
    assert said(page) == ["role human drop"]
    expect(page.locator(".change")).to_be_visible()


@pytest.mark.more
def test_a_list_is_dropped_as_messages(begun: Begin) -> None:
    page = begun("en_chats")
    page.get_by_label("Use as: conversations", exact=True).select_option(label="list of messages")
    settle(page)
    assert said(page) == ["set messages conversations[*] speaker=from text=value"]


@pytest.mark.more
def test_a_field_is_marked_wherever_it_is(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.locator("[role=treeitem][data-field=prompt]").hover()
    places = page.locator("[data-field=prompt].lit")
    found = places.evaluate_all("all => all.map((one) => one.className.split(' ')[0])")
    assert {"field", "chip", "node", "span"} <= set(found)


@pytest.mark.more
def test_a_conversation_is_continued(begun: Begin, address: str) -> None:
    page = begun("keeper.jsonl")
    drag(page, "reply_b", "assistant")
    where = page.evaluate("location.hash")
    page.goto(address.split("#")[0] + "#/")
    page.locator(f".talks a[href='{where}']").click()
    page.wait_for_selector("[role=treeitem]")
    assert chips(page, "assistant") == ["reply_b"]
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()


@pytest.mark.more
def test_a_refused_folder_is_explained(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.get_by_label("Output folder", exact=True).fill("../outside")
    page.get_by_role("button", name="Approve and convert").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="Approve and convert")).to_be_enabled()


@pytest.mark.more
def test_a_tokenizer_is_found_by_browsing(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.get_by_role("button", name="Browse: Tokenizer").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="tokenizer", exact=True).click()
    dialog.get_by_role("button", name="Choose: tokenizer.json").click()
    tokenizer = page.get_by_role("textbox", name="Tokenizer")
    expect(tokenizer).to_have_value("tokenizer/tokenizer.json")


@pytest.mark.more
def test_targets_without_a_field_are_folded(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    folded = page.locator(".more-targets")
    assert page.locator(".zone:visible").count() < 8
    folded.locator("summary").click()
    expect(page.locator(".zone[data-target='system']")).to_be_visible()
    drag(page, "voice", "system")
    assert chips(page, "system") == ["voice"]
    expect(folded.locator(".zone[data-target='system']")).to_have_count(0)


@pytest.mark.more
def test_rows_are_shown_by_a_value_and_by_what_becomes_of_them(begun: Begin) -> None:
    page = begun("en_chats")
    said = page.locator(".filter")
    expect(said).to_contain_text("25 of 25 rows")
    tree = page.locator("[role=treeitem][data-field=model]")
    tree.get_by_role("button", name="atlas-chat-mini 5").click()
    expect(said).to_contain_text("5 of 25 rows: model = atlas-chat-mini")
    row = page.locator(".node[data-field=model]")
    expect(row).to_contain_text("atlas-chat-mini")
    expect(page.locator(".pager")).to_contain_text("1 of 5")
    tree.get_by_role("button", name="atlas-chat-mini 5").click()  # a second click clears it
    expect(said).to_contain_text("25 of 25 rows")
    said.get_by_role("button", name="no assistant 1").click()
    expect(said).to_contain_text("1 of 25 rows: no assistant")
    expect(page.locator("p.none")).to_contain_text("This row gives no record. (no assistant)")
    said.get_by_role("button", name="show all").click()
    expect(said).to_contain_text("25 of 25 rows")


@pytest.mark.more
def test_messages_are_left_out_by_a_tick_and_taken_back(begun: Begin) -> None:
    page = begun("en_chats")
    page.locator("[role=treeitem][data-field='conversations[*].from']").click()
    box = page.get_by_role("checkbox", name="Keep messages: system")
    expect(box).to_be_checked()
    box.uncheck()
    settle(page)
    assert said(page) == ["drop message where from is system"]
    expect(box).not_to_be_checked()
    expect(page.locator(".effect .changed dd")).to_have_text("6")  # the seventh row gives no record
    box.check()
    settle(page)
    assert said(page)[1:] == ["keep message all from"]
    expect(box).to_be_checked()
    page.locator("[role=treeitem][data-field=model]").click()
    page.get_by_role("button", name="only: atlas-chat-mini").click()
    settle(page)
    expect(page.locator(".effect .after dd")).to_have_text("5")


@pytest.mark.more
def test_the_history_says_what_each_step_was(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    drag(page, "reply_b", "assistant")
    drag(page, "voice", "system")
    history = page.locator(".history")
    history.locator("summary").click()
    lines = history.locator("li").all_text_contents()
    assert lines == [
        "1. first proposal by rules",
        "2. set assistant reply_b by you",
        "3. set system voice by you",
    ]
    history.get_by_role("button", name="first proposal").click()
    settle(page)
    expect(page.locator(".history summary")).to_have_text("History 1/3")
    assert chips(page, "assistant") == ["reply_a"]


@pytest.mark.more
def test_an_empty_conversation_gives_lines_that_fit(begun: Begin) -> None:
    page = begun("en_chats")
    tries = page.locator(".tries button")
    assert 2 <= tries.count() <= 3
    expect(tries.first).to_have_text("drop model is atlas-chat-mini")
    tries.first.click()
    line = page.get_by_role("textbox", name="Command or question")
    expect(line).to_have_value("drop model is atlas-chat-mini")
    assert said(page) == []  # the person sends it
    line.press("Enter")
    settle(page)
    expect(page.locator(".tries")).to_have_count(0)


@pytest.mark.more
def test_data_without_text_is_not_approved(begun: Begin, root: Path) -> None:
    (root / "ages.csv").write_text("age,score\n" + "".join(f"{n},{n % 5}\n" for n in range(99)))
    page = begun("ages.csv")
    expect(page.locator("p.none").first).to_contain_text("it would write no records")
    expect(page.get_by_role("button", name="Approve and convert")).to_have_count(0)
    expect(page.get_by_role("region", name="Checks").locator(".state-word")).to_have_count(0)
    expect(page.locator(".zone[data-target=text]")).to_be_visible()
