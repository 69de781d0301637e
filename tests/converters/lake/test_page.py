"""The page of a lake in a real browser: sorted, filtered, opened, and attacked."""

import json
import re
import struct
import zlib
from dataclasses import replace

import pytest

from ingot.converters.lake.catalog import SetFacts, SetFigures
from ingot.converters.lake.page import render_lake_page
from tests.converters.lake.lakes import lake

TOLD = {
    "files": 2_314,
    "left_out": 41,
    "dedup": "exact",
    "split": [{"name": "train", "fraction": "0.98"}, {"name": "valid", "fraction": "0.02"}],
}
SETS = lake(90, seed=3)
WIDE = {"viewport": {"width": 1500, "height": 1000}}


@pytest.fixture(scope="module")
def html():
    return render_lake_page(SETS, title="text-lake", values=TOLD)


def column(page, key):
    return page.locator(f"#sets tbody .c-{key}").all_inner_texts()


def numbers(texts):
    return [int(text.split("\n")[0].replace(",", "")) for text in texts if text != "–"]


def names(page):
    return page.locator("#sets tbody .name").all_inner_texts()


def scrolled(page):
    """The page with all of its rows drawn, as somebody sees them who scrolls to the end."""
    drawn = -1
    while drawn != (drawn := page.locator("#sets tbody tr").count()):
        page.locator("#frame").evaluate("frame => { frame.scrollTop = frame.scrollHeight; }")
        page.wait_for_timeout(50)
    return page


def test_the_same_facts_give_the_same_bytes(html):
    assert render_lake_page(lake(90, seed=3), title="text-lake", values=TOLD) == html


@pytest.mark.more
def test_the_head_holds_the_totals(html, opened):
    page = opened(html, **WIDE)
    done = [one for one in SETS if one.status == "converted"]
    sums = [sum(one.rows[name] for one in done) for name in done[0].rows]
    assert numbers(page.locator("#equation b").all_inner_texts()) == sums
    assert sums[0] == sum(sums[1:])
    assert page.locator("#equation .right").inner_text() == "✓ adds up"
    assert page.title() == page.locator("h1").inner_text() == "text-lake"
    told = page.locator(".told").inner_text()
    assert told.startswith("90 data sets · 2,314 files found · 41 left out · ")
    assert told.endswith("duplicates left out of the corpus: exact · split train 0.98, valid 0.02")
    records = sum(one.figures.records for one in done)
    assert page.locator(".tile b").first.get_attribute("title") == f"{records:,}"
    chips = dict(text.rsplit(None, 1) for text in page.locator("button.status").all_inner_texts())
    assert chips["converted"] == str(len(done))
    assert sum(map(int, chips.values())) == len(SETS)


def test_rows_that_do_not_add_up_are_told(opened):
    wrong = SetFacts(
        name="a",
        place="a",
        status="converted",
        rows={"read": 3, "converted": 1, "rejected": 1, "filtered": 0},
        figures=SetFigures(records=1),
    )
    page = opened(render_lake_page([wrong], title="l", values={}))
    assert page.locator("#equation .wrong").inner_text() == "✗ does not add up"


@pytest.mark.more
@pytest.mark.parametrize("key", ["rows", "rejected", "across"])
def test_a_click_on_a_head_sorts_both_ways(html, opened, key):
    page = opened(html, **WIDE)
    head = page.locator(f"th[data-key={key}]")
    for way, down in (("descending", True), ("ascending", False)):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == way
        texts = column(scrolled(page), key)
        assert len(texts) == len(SETS)
        known = numbers(texts)
        assert known == sorted(known, reverse=down)
        assert texts[len(known) :] == ["–"] * (len(texts) - len(known)), "unknown ones come last"
    assert page.locator("th[data-key=name]").get_attribute("aria-sort") == "none"


@pytest.mark.more
def test_a_table_is_drawn_as_far_as_somebody_looks(html, opened):
    page = opened(html, **WIDE)
    assert len(names(page)) == 60
    assert page.locator("#sets").get_attribute("aria-rowcount") == "91"
    page.set_viewport_size({"width": 1500, "height": 6_000})
    page.locator("#sets tbody tr").nth(89).wait_for()
    assert len(names(scrolled(opened(html, **WIDE)))) == 90


@pytest.mark.more
def test_why_there_are_no_records_stands_beside_the_status(html, opened):
    page = opened(html, "#status=failed", **WIDE)
    assert set(column(page, "status")) == {
        "failed\npart-00003.jsonl.gz: cut off after 81,920 bytes"
    }


@pytest.mark.more
def test_a_table_that_is_wider_than_the_window_says_so(html, opened):
    page = opened(html, viewport={"width": 1100, "height": 900})
    assert page.locator("#frame").evaluate("one => one.scrollWidth > one.clientWidth")
    assert page.locator("#wider").is_visible()
    page.set_viewport_size({"width": 2500, "height": 900})
    page.locator("#wider").wait_for(state="hidden")


@pytest.mark.more
def test_a_low_confidence_looks_different(opened):
    sets = [replace(made(name), confidence=sure) for name, sure in (("a", 0.12), ("b", 0.97))]
    page = opened(render_lake_page(sets, title="l", values={"sure": 0.6}), **WIDE)
    low, high = page.locator("#sets .c-confidence .bar").all()
    assert low.get_attribute("aria-label") == "confidence 12 %, below 60 %"
    colours = [
        one.locator("rect").last.evaluate("e => getComputedStyle(e).fill") for one in (low, high)
    ]
    assert colours[0] != colours[1]


@pytest.mark.more
def test_every_column_can_be_sorted_by(opened):
    page = opened(render_lake_page(SETS[:12], title="l", values={}), **WIDE)
    clicked = """heads => heads.map(head => [0, 1].map(() => {
        head.querySelector("button").click(); return head.getAttribute("aria-sort"); }))"""
    ways = page.locator("#sets thead th").evaluate_all(clicked)
    assert {tuple(sorted(way)) for way in ways} == {("ascending", "descending")}
    assert len(ways) == 15
    page.locator("th[data-key=name] button").click()
    page.locator("th[data-key=name] button").click()
    assert names(page)[0] == max(one.name for one in SETS[:12])


@pytest.mark.more
def test_filters_leave_what_fits_and_count_it(html, opened):
    page = opened(html, **WIDE)
    page.locator("button.s-failed").click()
    failed = [one.name for one in SETS if one.status == "failed"]
    assert names(page) == failed
    assert page.locator("#shown").inner_text().startswith(f"{len(failed)} of 90 data sets")
    page.locator("button.s-waiting").click()
    assert len(names(page)) == sum(one.status in ("failed", "waiting") for one in SETS)
    page.locator("#reset").click()
    assert page.locator("#shown").inner_text().startswith("90 data sets")
    page.locator("select[name=mapper]").select_option("llm")
    page.locator("select[name=decision]").select_option("sft")
    page.locator("select[name=language]").select_option("zh")
    wanted = [
        one.name
        for one in SETS
        if (one.mapper, one.decision) == ("llm", "sft") and "zh" in one.figures.languages
    ]
    assert wanted
    assert names(page) == wanted


@pytest.mark.more
def test_a_data_set_is_found_by_every_language_and_choices_stay_few(opened):
    many = made(languages={f"l{place:02}": 100 - place for place in range(60)})
    page = opened(render_lake_page([many, made("b")], title="l", values={}), **WIDE)
    page.locator("select[name=language]").select_option("l59")
    assert names(page) == ["a"]
    anything = [made(f"s{n}", languages={f"{n}-{m}": 1 for m in range(50)}) for n in range(9)]
    page = opened(render_lake_page([many, *anything], title="l", values={}), **WIDE)
    assert page.locator("select[name=language] option").count() == 1 + 300


@pytest.mark.more
def test_text_is_looked_for_in_names_places_and_reasons(html, opened):
    page = opened(html, **WIDE)
    page.keyboard.press("/")
    page.keyboard.type("81,920 CUT")
    assert names(page) == [one.name for one in SETS if "81,920" in one.why]
    page.locator("[name=q]").fill("no such data set")
    assert names(page) == []
    assert page.locator("#shown").inner_text().startswith("0 of 90 data sets")


@pytest.mark.more
def test_a_view_is_kept_in_the_address(html, opened):
    page = opened(html, **WIDE)
    page.locator("button.s-converted").click()
    page.locator("[name=q]").fill("web")
    page.locator("th[data-key=tokens] button").click()
    page.locator("#sets tbody tr").nth(2).click()
    shown, name = names(page), page.locator("#set-name").inner_text()
    again = opened(html, "#" + page.url.split("#")[1], **WIDE)
    assert names(again) == shown
    assert again.locator("#set-name").inner_text() == name == shown[2]
    strange = opened(html, "#sort=constructor&status=toString,failed&set=__proto__&q=%", **WIDE)
    assert strange.locator("button.s-failed").get_attribute("aria-pressed") == "true"


@pytest.mark.more
def test_a_data_set_is_opened_and_left_with_the_keyboard(html, opened):
    page = opened(html, "#q=chat&status=converted", **WIDE)
    first, second = names(page)[:2]
    page.locator("#sets tbody a").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#set-name").inner_text() == second
    page.keyboard.press("ArrowLeft")
    assert page.locator("#set-name").inner_text() == first
    page.keyboard.press("Escape")
    assert not page.locator("#set").is_visible()
    assert page.evaluate("document.activeElement.textContent") == first
    page.go_back()


@pytest.mark.more
def test_what_a_data_set_shows(html, opened):
    one = next(one for one in SETS if one.decision == "sft" and one.overlaps and one.rejects)
    page = opened(html, f"#set={one.name}", **WIDE)
    shown = page.locator("#set").inner_text()
    for wanted in ("confidence", one.figures.samples[0]["system"], "README.md", *one.rejects):
        assert wanted in shown
    message = one.figures.samples[0]["messages"][1]
    turn = page.locator(".turn.trained").first
    assert turn.locator("header").inner_text().split("\n") == ["assistant", "trained on"]
    assert turn.locator(".said").inner_text() == message["content"]
    assert json.loads(page.locator("#set .json").inner_text()) == one.mapping
    other = sorted(one.overlaps)[0]
    page.locator("#set").get_by_role("link", name=other, exact=True).click()
    assert page.locator("#set-name").inner_text() == other
    page.go_back()
    assert page.locator("#set-name").inner_text() == one.name


@pytest.mark.more
def test_what_to_do_stands_there_as_a_command(opened):
    one = SetFacts(
        name="a",
        place="a",
        status="other_command",
        why="clicks",
        hint="run: ingot criteo inspect a",
    )
    page = opened(render_lake_page([one], title="l", values={}), "#set=a")
    assert page.locator("#set .command").inner_text() == "ingot criteo inspect a"


@pytest.mark.more
def test_texts_keep_their_lines(opened):
    text = "one\n\n  two\tthree\nfour"
    one = made(samples=({"text": text, "meta": {"source": "s"}},))
    page = opened(render_lake_page([one], title="l", values={}), "#set=a")
    assert page.locator(".said").evaluate("said => said.textContent") == text
    assert page.locator(".said").bounding_box()["height"] > 60


@pytest.mark.more
def test_what_is_left_out_is_told(opened):
    turns = [{"role": "user", "content": "hello", "loss_mask": False}]
    cut = {"messages": turns, "messages_left_out": 30, "system": None, "meta": {}}
    one = made(
        languages={"en": 5, "": 3, "*": 2}, heard={"": 1, "en": 4}, samples=(cut, {"text": "a…"})
    )
    others = {f"n{place}": 1 for place in range(30)}
    one = replace(one, left_out_count=7, overlaps=others, tokens=None)
    shown = (
        opened(render_lake_page([one], title="l", values={}), "#set=a").locator("#set").inner_text()
    )
    for wanted in ("30 further messages", "6 further files", "6 further ones: 6", "a…"):
        assert wanted in shown
    for wanted in ("others", "unknown", "recognized in a sample: en 4, none 1"):
        assert wanted in shown


@pytest.mark.more
def test_reasons_for_which_files_are_left_out_are_told(opened):
    reasons = [["auxiliary file (settings)", 238, ["a.yml", "<b>.yml"]], ["empty", 1, ["c.csv"]]]
    page = opened(render_lake_page([], title="l", values={"left_out": 239, "reasons": reasons}))
    assert not page.locator(".left-out ul").is_visible()
    page.locator(".left-out summary").click()
    shown = page.locator(".left-out").inner_text()
    assert "auxiliary file (settings) (238): a.yml, <b>.yml and 236 more" in shown
    assert "empty (1): c.csv\n" in shown
    assert page.locator(".left-out a").get_attribute("href") == "./left_out.jsonl"


@pytest.mark.more
def test_writing_that_needs_its_marks_keeps_them(opened):
    text = "\U0001f469\u200d\U0001f52c नमस्\u200dते שלום \ufffd \U0001f600"
    page = opened(
        render_lake_page([made(samples=({"text": text},))], title="l", values={}), "#set=a"
    )
    assert page.locator(".said").evaluate("said => said.textContent") == text
    assert page.locator("#set .hidden-mark").count() == 0


@pytest.mark.more
def test_a_lake_without_data_sets_has_a_page(opened):
    page = opened(render_lake_page([], title="l", values={}))
    assert page.locator("#shown").inner_text().startswith("0 data sets")


@pytest.mark.more
@pytest.mark.parametrize("looks", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1500])
def test_it_looks_like_something(html, opened, looks, width):
    size = {"viewport": {"width": width, "height": 900}}
    page = opened(html, color_scheme=looks, **size)
    ground, inks = pixels(page.screenshot())
    assert (sum(ground) > 600) == (looks == "light")
    assert inks > 100, "not blank"
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"


def pixels(png):
    """The first pixel of a PNG with 8 bits a colour, and how many hundred bytes it deflates to."""
    width, _, _, kind = struct.unpack(">IIBB", png[16:26])
    start, packed = 8, b""
    while start < len(png):
        length, name = struct.unpack(">I4s", png[start : start + 8])
        packed += png[start + 8 : start + 8 + length] if name == b"IDAT" else b""
        start += length + 12
    raw = zlib.decompress(packed)
    assert len(raw) > width * {2: 3, 6: 4}[kind]
    return raw[1:4], len(packed) // 100


def sheets(page):
    return int(re.search(rb"/Type /Pages\s*/Count (\d+)", page.pdf()).group(1))


@pytest.mark.more
def test_it_prints_every_row_and_all_of_an_opened_data_set(html, opened):
    page = opened(html, **WIDE)
    assert sheets(page) > 2
    assert len(names(page)) == 90
    text = "line\n" * 300
    one = made(samples=({"text": text, "meta": {}},))
    assert sheets(opened(render_lake_page([one], title="l", values={}), "#set=a", **WIDE)) > 4


# --- what data may hold

HIT = "window.hit = 1"
HOSTILE = [
    f"</script><img src=x onerror='{HIT}'>",
    f"<script>{HIT}</script>",
    f"<!--<script>{HIT}//-->",
    f"]]><svg onload='{HIT}'>",
    f"javascript:{HIT}",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;\u2028\u2029\\u003c/script\\u003e",
    "a\x00b\x1b[31m\x7f\x9b",
    "\u202eabc\u2066\u200f\ufeff",
    "\ud800 half \udc00 pairs \udfff\ud800",
    "__proto__",
    "constructor",
    "\U000e0041\U0001f600",
]


def made(text="a", **figures):
    return SetFacts(
        name=text,
        place=text,
        status="converted",
        why=text,
        hint=text,
        decision=text,
        mapper=text,
        model=text,
        confidence=0.5,
        format=text,
        rows={"read": 2, "converted": 1, "rejected": 1, "filtered": 0},
        rejects={text: 1},
        figures=SetFigures(**{"records": 1, "languages": {text: 1}, "lengths": {0: 1}, **figures}),
        overlaps={text: 1},
        left_out=({"name": text, "why": text},),
        card={"title": text, "languages": [text], text: text},
        mapping={text: [text, {"role": text}]},
        mapping_file=text,
        result=text,
        fingerprint=text,
    )


def hostile(text):
    turn = {"role": text, "content": text, "loss_mask": True, text: {text: text}}
    samples = (
        {"text": text, "meta": {"source": text, text: [text]}},
        {"messages": [turn], "system": text, "meta": {}, "tools": text, text: text},
    )
    return made(text, samples=samples, heard={text: 1})


@pytest.mark.more
def test_what_data_holds_is_text_and_nothing_else(opened):
    sets = [hostile(text) for text in HOSTILE]
    page = opened(render_lake_page(sets, title=HOSTILE[0], values={"dedup": HOSTILE[0]}), **WIDE)
    elements = "document.querySelectorAll('img, iframe, object, embed, link, svg *[onload]').length"
    for place in range(len(sets)):
        page.locator("#sets tbody tr").nth(place).locator("a").click()
        assert page.locator("#set-name").is_visible()
        page.keyboard.press("Escape")
        assert page.evaluate(elements) == 0
        links = page.locator("#set a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
        assert links
        assert all(href.startswith(("#", "./")) and ":" not in href for href in links)
    assert page.evaluate("'hit' in window || 'hit' in Object.prototype") is False
    assert page.locator("script").count() == 3
    assert page.locator("h1").inner_text() == HOSTILE[0]


@pytest.mark.more
def test_marks_that_are_not_seen_are_spelled_out(opened):
    page = opened(render_lake_page([hostile("\u202eabc\x00\ud800")], title="l", values={}), **WIDE)
    assert names(page) == ["\\u{202e}abc\\u{0}\\u{d800}"]


@pytest.mark.more
def test_long_words_push_nothing_out_of_the_page(opened):
    sets = [hostile("x" * 100_000)]
    page = opened(render_lake_page(sets, title="y" * 100_000, values={}), **WIDE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1500
    page.locator("#sets tbody tr").first.locator("a").click(position={"x": 5, "y": 5})
    assert page.locator("#set").evaluate("one => one.scrollWidth - one.clientWidth") <= 0
