"""What goes into the page of a lake: escaped, within bounds, and the sums right."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.lake import page as page_data
from ingot.converters.lake.catalog import SetFacts, SetFigures
from ingot.converters.lake.page import render_lake_page
from tests.converters.lake.lakes import lake

TEXTS = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["</script>", "<!--", "<script", "\u2028", "]]>", "&amp;", "\ud800", "\x00"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@pytest.mark.more
@given(VALUES)
def test_json_in_a_page_says_what_it_said_and_ends_nothing(value):
    text = page_data.embed_json(value)
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)
    assert text.encode("utf-8")


def test_numbers_that_json_has_not_become_texts():
    assert json.loads(page_data.embed_json({"a": [float("nan"), float("-inf")]})) == {
        "a": ["nan", "-inf"]
    }


class Blocks(HTMLParser):
    """The script blocks of a page, as a parser finds them."""

    def __init__(self, page):
        super().__init__()
        self.found, self.inside = [], False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.inside = tag == "script"
        if self.inside:
            self.found.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.found[-1] += data


@pytest.mark.more
@given(TEXTS, TEXTS)
def test_a_page_holds_three_blocks_whatever_its_data_hold(name, text):
    one = SetFacts(name=name, place=text, status="failed", why=text, mapping={text: name})
    lake_block, details, _ = Blocks(render_lake_page([one], title=text, values={}).decode()).found
    assert json.loads(lake_block)["sets"][0]["name"] == name
    assert json.loads(json.loads(details)[0]["mapping"]) == {text: name}


def test_only_the_style_and_the_script_of_the_page_may_be_used():
    page = render_lake_page([], title="l", values={}).decode()
    policy = re.search('Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    style, script = re.search("<style>(.*)</style>", page, re.DOTALL)[1], Blocks(page).found[-1]
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in (style, script)
    )
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{style_hash}'",
        f"script-src 'sha256-{script_hash}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def test_the_script_makes_no_html_of_texts():
    script = Blocks(render_lake_page([], title="l", values={}).decode()).found[-1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|import\(|localStorage", script)


def test_totals_are_those_of_the_data_sets():
    sets = lake(200, seed=1)
    done = [one for one in sets if one.status == "converted"]
    totals = page_data.lake_totals(sets)
    assert totals["adds_up"]
    assert totals["rows"]["read"] == sum(one.rows["read"] for one in done)
    assert totals["records"] == sum(one.records["written"] for one in done)
    assert sum(totals["statuses"].values()) == totals["sets"] == 200
    for split in totals["splits"]:
        parts = [part for one in done for part in one.splits if part.name == split["name"]]
        assert split["records"] == sum(part.records for part in parts)
        assert split["tokens"] == sum(part.tokens for part in parts)
    asked = [one for one in sets if one.spent]
    assert totals["spent"]["calls"] == len(asked)
    assert totals["spent"]["unpriced"] == sum(one.spent["cost"] is None for one in asked)


def test_one_data_set_that_does_not_add_up_is_seen_also_where_the_sums_do():
    def counted(read):
        rows = {"read": read, "converted": 2, "rejected": 0, "filtered": 0}
        return SetFacts(name=str(read), place=".", status="converted", rows=rows)

    assert not page_data.lake_totals([counted(1), counted(3)])["adds_up"]
    assert page_data.lake_totals([counted(2), counted(2)])["adds_up"]


def test_what_stands_behind_the_first_is_counted():
    told = page_data.top_counts(
        {f"l{place}": place for place in range(1, page_data.TOP_LANGUAGES + 3)}
    )
    assert len(told["first"]) == page_data.TOP_LANGUAGES
    assert told["first"][0] == [f"l{page_data.TOP_LANGUAGES + 2}", page_data.TOP_LANGUAGES + 2]
    assert (told["others"], told["count"]) == (2, 3)


def test_languages_behind_the_first_are_named_as_far_as_they_are_tags():
    first = {f"l{place:02}": 9 for place in range(page_data.TOP_LANGUAGES)}
    assert page_data.rare_languages(first) == []
    more = {"xx": 2, "x" * 100: 2, "aa": 2, "zz": 3} | {f"m{place}": 1 for place in range(500)}
    told = page_data.rare_languages(first | more)
    assert told[:3] == ["zz", "aa", "xx"]
    assert len(told) < 200


@given(st.lists(st.integers(0, 1_000), min_size=1), st.integers(0, 5_000))
def test_a_budget_is_dealt_fairly_and_kept(sizes, budget):
    each = page_data.fair_share(sizes, budget)
    assert sum(min(size, each) for size in sizes) <= budget or each == 0
    if sum(sizes) <= budget:
        assert each >= max(sizes)


@pytest.mark.more
def test_the_page_stays_within_its_bounds():
    text = "字" * 4_000
    figures = SetFigures(records=3, samples=tuple({"text": text, "meta": {}} for _ in range(3)))
    sets = [
        SetFacts(
            name=f"{place}", place=".", status="converted", figures=figures, mapping={"text": text}
        )
        for place in range(700)
    ]
    page = render_lake_page(sets, title="l", values={})
    budget = page_data.SAMPLES_BYTES + page_data.MAPPINGS_BYTES
    assert len(page) < budget + 700 * 1_000 + 100_000
    details = page_data.set_details(sets)
    assert all(one["samples"] and one["samples_cut"] == 3 for one in details)
    assert all(one["samples"][0]["text"].endswith("…") for one in details)


def test_samples_that_fit_are_whole():
    one = {"text": "short", "meta": {}}
    assert page_data.fitting_samples([one, one], 1_000) == ([one, one], 0)
    assert page_data.fitting_samples([one, {"text": "x" * 2_000, "meta": {}}], 1_000) == ([one], 1)
    assert page_data.fitting_samples([one], 3) == ([], 1)
    assert page_data.fitting_samples([], 3) == ([], 0)
