"""Names of controls, landmarks, the keyboard's help, narrow windows, and Chinese."""

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: make test-more brings it")
from playwright.sync_api import expect

from tests.ui.conftest import check_names

Open = Callable[..., Any]
Begin = Callable[..., Any]


@pytest.mark.more
def test_every_control_has_a_name(opened: Open, address: str, begun: Begin) -> None:
    page = opened(address)
    page.wait_for_selector(".entry")
    check_names(page)
    page.goto(address.split("#")[0] + "#/review")
    expect(page.get_by_role("textbox", name="Old mapping")).to_be_visible()
    check_names(page)
    page = begun("en_chats")
    check_names(page)
    regions = ("Fields", "Mapping and examples", "Checks", "Conversation", "Approval")
    for name in regions:
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()


@pytest.mark.more
def test_the_tree_of_fields_is_a_tree(begun: Begin) -> None:
    page = begun("en_chats")
    tree = page.get_by_role("tree", name="Fields")
    items = tree.get_by_role("treeitem")
    expect(items).to_have_count(6)
    expect(items.nth(4)).to_have_attribute("aria-level", "3")
    expect(items.nth(4)).to_have_accessible_name("from, string, 100 %, used as role")
    assert tree.locator("[role=treeitem][tabindex='0']").count() == 1
    page.keyboard.press("f")
    for key in ("End", "ArrowLeft", "ArrowLeft", "ArrowLeft"):  # to the last, up, fold, up
        page.keyboard.press(key)
    expect(items).to_have_count(4)
    page.keyboard.press("ArrowLeft")
    expect(items).to_have_count(3)
    expect(items.nth(2)).to_be_focused()
    expect(items.nth(2)).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(items.nth(3)).to_be_focused()


@pytest.mark.more
def test_what_changed_is_announced(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.get_by_label("Use as: reply_b").select_option("set assistant reply_b")
    expect(page.locator("#live")).to_have_text("5 → 5 records, 5 changed, 0 lost, 0 gained")
    expect(page.locator("#live")).to_have_attribute("aria-live", "polite")


@pytest.mark.more
def test_the_keys_are_listed(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog.locator("kbd")).to_have_count(8)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    page.keyboard.press("]")
    expect(page.locator(".pager")).to_contain_text("2 of 5")
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Command or question")).to_be_focused()


@pytest.mark.more
def test_the_focus_is_seen(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.keyboard.press("f")
    styles = "one => getComputedStyle(one).outlineStyle"
    assert page.locator("[role=treeitem]:focus").evaluate(styles) == "solid"


@pytest.mark.more
@pytest.mark.parametrize("width", [800, 1024])
def test_a_narrow_window_is_usable(begun: Begin, width: int) -> None:
    page = begun("en_chats", viewport={"width": width, "height": 700})
    assert page.evaluate("document.querySelector('main').scrollWidth") <= width
    page.get_by_role("button", name="Approve and convert").click(trial=True)
    page.get_by_role("textbox", name="Command or question").click(trial=True)
    page.locator(".zone").first.click(trial=True)


@pytest.mark.more
def test_the_page_speaks_chinese(begun: Begin) -> None:
    page = begun("keeper.jsonl")
    page.get_by_label("Language").select_option("zh")
    page.wait_for_selector("[role=treeitem]")
    assert page.locator("html").get_attribute("lang") == "zh"
    expect(page.get_by_role("region", name="字段", exact=True)).to_be_visible()
    expect(page.locator(".gate-name").first).to_have_text("置信度")  # names of gates, too
    expect(page.get_by_role("button", name="批准并转换")).to_be_enabled()
    told = page.locator(".told.person li").all_text_contents()
    assert told  # reasons and doubts are Chinese, with their figures
    assert all(re.search("[\u4e00-\u9fff]", one) for one in told), told
    expect(page.locator(".gate .figure").first).to_contain_text("至少 0.")
    page.reload()  # kept
    expect(page.get_by_label("语言")).to_have_value("zh")


@pytest.mark.more
def test_reasons_are_said_in_chinese_wherever_they_are_known(opened: Open, address: str) -> None:
    page = opened(address, locale="zh-CN")
    said = page.evaluate(
        "texts => import('/static/reasons.js').then((one) => texts.map((text) => one.told(text)))",
        [
            "confidence 0.452 is below --min-confidence 0.9",
            "the rules propose something else (sft, 0.96) and are sure of it",
            "1 file, 1.2 % of the bytes: docx (1 file, 20 bytes)",
            "only 7 rows to judge by; 100% of the records hold markup",
            "the model turned roles round: 'bot' → user",
            "<img src=x onerror=alert(1)> is something else",
            "none",
        ],
    )
    assert said == [
        "置信度 0.452 低于 --min-confidence 0.9",
        "规则提出了别的方案（sft，0.96），并且很有把握",
        "1 个文件，占字节的 1.2 %：docx（1 个文件，20 字节）",
        "只有 7 行可供判断；100% 的记录含有标记语言（如 HTML）",
        "模型颠倒了角色：'bot' → user",
        "<img src=x onerror=alert(1)> is something else",
        "无",
    ]


@pytest.mark.more
def test_the_language_of_the_browser_is_taken(opened: Open, address: str) -> None:
    page = opened(address, locale="zh-CN")
    expect(page.get_by_role("heading", level=1)).to_have_text("把原始数据集变成训练数据")


@pytest.mark.more
def test_both_dictionaries_have_equal_keys_and_places(opened: Open, address: str) -> None:
    page = opened(address)
    words = page.evaluate("import('/static/words.js').then((one) => one.WORDS)")
    assert words["en"].keys() == words["zh"].keys()
    assert len(words["en"]) > 150
    for key, said in words["en"].items():
        places = {one.split("}")[0] for one in said.split("{")[1:]}
        assert {one.split("}")[0] for one in words["zh"][key].split("{")[1:]} == places, key
        assert words["zh"][key]


def contrast(page: Any, selector: str) -> float:
    """The least contrast of texts with the colour behind them (WCAG 2)."""
    found: float = page.evaluate(
        """selector => {
          const kept = { willReadFrequently: true };
          const context = document.createElement('canvas').getContext('2d', kept);
          const parse = (colour) => {
            context.clearRect(0, 0, 1, 1);
            context.fillStyle = colour;
            context.fillRect(0, 0, 1, 1);
            return [...context.getImageData(0, 0, 1, 1).data];
          };
          const light = ([r, g, b]) => {
            const part = (v) => v < 10.01 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4;
            return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
          };
          const behind = (one) => {
            for (let at = one; at; at = at.parentElement) {
              const colour = parse(getComputedStyle(at).backgroundColor);
              if (colour[3] === 255) return colour;
            }
          };
          return Math.min(...[...document.querySelectorAll(selector)].map((one) => {
            const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          }));
        }""",
        selector,
    )
    return found


@pytest.mark.more
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_both_themes(begun: Begin, scheme: str) -> None:
    page = begun("keeper.jsonl", color_scheme=scheme)
    page.evaluate(
        """() => document.querySelectorAll('.chip, .span').forEach((one, place) => {
          one.classList.add('c', `c${place % 10}`);
        })"""
    )
    for selector in (
        ".chip",
        ".span",
        ".soft",
        ".tag",
        ".gate-state",
        ".primary",
        ".figure",
        ".facet",
    ):
        assert contrast(page, selector) >= 4.5, selector
