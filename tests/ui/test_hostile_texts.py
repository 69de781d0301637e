"""Names, values and speakers that are written to break a page are shown as text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MARKUP = "<img src=x onerror='window.broken=1'>"
SCRIPT = "</script><script>window.broken=1</script>"
TURNED = "a\u202egnp.exe\u2066\u0007\u200b"
FORMS = {"markup": MARKUP, "script": SCRIPT, "turned": TURNED, "address": "javascript:broken=1"}
LONG = "long " * 4_000

Open = Callable[..., Any]


def conversation(number: int) -> dict[str, Any]:
    """A conversation with hostile keys, values and speakers."""
    turns = [
        {"from": "human", "value": f"{number} {MARKUP} What is {SCRIPT}?"},
        {"from": "gpt", "value": f"An answer {TURNED} javascript:alert({number})"},
        {"from": MARKUP, "value": "A third speaks."},
    ]
    named = {f"{form} {text}": f"{text} {number}" for form, text in FORMS.items()}
    return {"conversations": turns, "text": LONG, MARKUP: {SCRIPT: TURNED}, **named}


@pytest.fixture(scope="module")
def place(serve: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder whose files are called in hostile ways, too."""
    root = tmp_path_factory.mktemp("hostile") / MARKUP
    root.mkdir()
    rows = "".join(json.dumps(conversation(number)) + "\n" for number in range(30))
    for name in (f"{MARKUP}.jsonl", f"{TURNED}.jsonl", "javascript:alert(1).jsonl", "plain.jsonl"):
        (root / name).write_text(rows)
    return serve(root)


# What may stand in a page of this program; everything else came from data.
_OWN = (
    "a article aside b bdi body button code dd del details dialog div dl dt form h1 "
    "h2 h3 h4 head header html input label li link main mark meta nav noscript ol "
    "optgroup option p pre rect script section select span style summary svg table "
    "caption tbody td th thead title tr ul "
)


def foreign(page: Any) -> list[str]:
    """Elements, attributes and addresses that this page would not make."""
    found: list[str] = page.evaluate(
        """own => {
          const all = [...document.querySelectorAll('*')];
          const odd = all.filter((one) => !own.includes(one.localName)).map((one) => one.localName);
          for (const one of all) for (const { name, value } of one.attributes) {
            if (name.startsWith('on')) odd.push(name);
            if (['href', 'src'].includes(name) && /^(javascript|http)/.test(value)) odd.push(value);
          }
          const scripts = document.querySelectorAll('script');
          if (scripts.length !== 1) odd.push(`${scripts.length} scripts`);
          if (window.broken) odd.push('a script ran');
          return odd;
        }""",
        _OWN.split(),
    )
    return found


def unspelled(page: Any) -> list[str]:
    """Texts of the page in which a mark that turns or hides stands as it is."""
    found: list[str] = page.evaluate(
        r"""() => {
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const odd = [];
          while (walker.nextNode()) {
            if (/[\u0007\u200b\u202a-\u202e\u2066-\u2069]/.test(walker.currentNode.data)) {
              odd.push(walker.currentNode.data.slice(0, 80));
            }
          }
          return odd;
        }"""
    )
    return found


def widths(page: Any) -> tuple[int, int]:
    """How wide the content is, and the window."""
    both = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    return both[0], both[1]


def check(page: Any) -> None:
    """Nothing of the data became part of the page, and the layout holds."""
    assert foreign(page) == []
    assert unspelled(page) == []
    content, window = widths(page)
    assert content <= window


@pytest.mark.more
def test_no_text_of_data_becomes_part_of_the_page(opened: Open, place: str) -> None:
    page = opened(place)
    page.wait_for_selector(".entry")
    check(page)
    assert MARKUP in page.locator(".entries").inner_text()
    page.locator(".entry").filter(has_text="onerror").get_by_role("button").last.click()
    page.wait_for_selector("[role=treeitem]")
    check(page)
    page.get_by_label("Role: <img").select_option("drop")
    page.wait_for_selector(".page:not([aria-busy])")
    check(page)
    line = page.get_by_role("textbox", name="Command or question")
    for said in (f"set user {MARKUP}", TURNED + SCRIPT, "alternatives", "swap"):
        line.fill(said)
        line.press("Enter")
        page.wait_for_selector(".page:not([aria-busy])")
        check(page)
    page.get_by_text("Mapping as JSON").click()
    check(page)


@pytest.mark.more
def test_a_result_with_hostile_texts(opened: Open, place: str) -> None:
    page = opened(place)
    page.get_by_role("button", name="Use as source: plain.jsonl").click()
    page.wait_for_selector("[role=treeitem]")
    page.get_by_label("Role: <img").select_option("tool")
    page.wait_for_selector(".page:not([aria-busy])")
    page.get_by_label("Output folder", exact=True).fill(f"out {FORMS['address']}")
    page.get_by_role("button", name="Approve and convert").click()
    page.get_by_role("link", name="Open result").click(timeout=60_000)
    page.wait_for_selector(".record")
    assert MARKUP in page.locator(".record").first.inner_text()
    check(page)


@pytest.mark.more
def test_a_long_text_is_cut_and_can_be_shown(opened: Open, place: str) -> None:
    page = opened(place)
    page.get_by_role("button", name="Use as source: plain.jsonl").click()
    page.wait_for_selector("[role=treeitem]")
    node = page.locator(".node[data-field=text]")
    before = node.bounding_box()["height"]
    assert before < 400
    node.get_by_role("button", name="more").click()
    assert node.bounding_box()["height"] > before
    check(page)


@pytest.mark.more
def test_a_text_of_100_kb_is_cut_by_the_page_itself(opened: Open, place: str) -> None:
    page = opened(place)
    shown = page.evaluate(
        """async () => {
          const { text, plain } = await import('/static/dom.js');
          const whole = text('<b>\\u202e' + 'x'.repeat(100_000));
          const before = whole.textContent.length;
          whole.querySelector('button').click();
          return [before, whole.textContent.length, whole.querySelectorAll('b').length,
            plain('y'.repeat(100_000)).length, whole.textContent.slice(0, 11)];
        }"""
    )
    before, after, elements, title, beginning = shown
    assert before < 500
    assert (after, elements, beginning) == (100_011, 0, "<b>\\u{202e}")
    assert title < 400
