"""The comment of a review, rendered as GitHub does: nothing in it is made of the data.

Rendered by two implementations: cmark-gfm, from which GitHub's own renderer descends, and
markdown-it with links of bare addresses, footnotes, task lists and formulas. The page is then taken
apart: only tags of our own, in the same order as with harmless data; text outside code is ours.
"""

import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from itertools import cycle
from pathlib import Path
from typing import Any

import cmarkgfm.cmark as cmark
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.tasklists import tasklists_plugin

from ingot.agent.review.github_comment import (
    COMMENT_LIMIT,
    MARKER,
    MOST_REASONS,
    render_comment,
    render_summary,
)
from ingot.agent.review.markdown_escaping import (
    code_span,
    escape_words,
    fence_lines,
    markdown_table,
    printable_line,
    utf8_size,
    visible_text,
    wrap_text,
)

DOCUMENT = json.loads(Path(__file__).with_name("document.json").read_text("utf-8"))
COMMENTS = [" ingot-review ", " verdict: block, mappings: 5 "]
TAGS = {
    *("h3", "h4", "p", "ul", "li", "strong", "code", "pre", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {
    *(("pre", "lang", name) for name in ("diff", "sh")),
    *(("code", "class", f"language-{name}") for name in ("diff", "sh")),
    ("ul", "class", "contains-task-list"),
}
# What GitHub would make something of, in text outside code.
LIVE = re.compile(
    r"[@#$<>\[\]`*_~\\|{}=^&\"']|://|www\.|:[\w+-]+:|\bGH-\d|\b[0-9a-f]{7,}\b|!\[|-->",
    re.IGNORECASE,
)
ATTACKS = [
    # mentions
    "@octocat", "ping @org/team now", "(@octocat)", "a\n@octocat", "@\u200boctocat", "&#64;octocat",
    "\\@octocat", "`@octocat`", "`` @octocat", "@octocat|@octocat",
    # references
    "#12", "GH-12", "owner/repo#1", "owner@3f786850", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "3f78685", "deadbeef", "fixes #1", "gh-12", "JIRA-123", "CVE-2021-44228", "owner/repo@main",
    # links
    "http://evil.example", "https://evil.example/a?b=c&d", "www.evil.example", "WWW.EVIL.EXAMPLE",
    "me@evil.example", "mailto:me@evil.example", "xmpp:me@evil.example", "ftp://evil.example",
    "[text](http://evil.example)", "[text][1]", "[1]: http://evil.example", "<http://evil.example>",
    "<me@evil.example>", "[[Home]]", "//evil.example", "javascript:alert(1)", "[x](javascript:x)",
    # images
    "![x](http://evil.example/p.png)", "![x][1]", "<img src=x onerror=alert(1)>",
    # HTML
    "<b>bold</b>", "<script>alert(1)</script>", "</details>", "<details open>", "</summary>",
    "<!-- hidden -->", "-->", "<!--", "--!>", "<![CDATA[x]]>", "<?php ?>", "&lt;b&gt;", "&amp;",
    "</code></pre><a href=x>y</a>", "</td></tr></table>", "<kbd>", "<h1>x</h1>", "<br>",
    # tables, blocks, fences
    "a|b", "a\\|b", "a\\\\|b", "|", "\\", "| --- |", "a\nb", "a\r\nb", "a\n\nb", "\n# heading",
    "# heading", "heading\n===", "---", "***", "- [ ] task", "- [x] task", "1. list", "* list",
    "> quote", "    code", "```", "~~~", "````", "\n```\n@octocat\n```", "```math\nx\n```",
    "- ```", "+ ````````", "\n~~~", "[!WARNING]", "> [!WARNING]",
    # spans
    "`", "``", "` `", " `", "` ", "`a``b```c", "*a*", "_a_", "__a__", "~~a~~", "a_b_c", "**", "\\*",
    # formulas, emoji, footnotes, colours
    "$x$", "$$x$$", "$`x`$", "`$`x`$`", "\\(x\\)", ":smile:", ":+1:", "a:smile:b", "[^1]",
    "[^1]: note", "#ff0000", "rgb(1,2,3)",
    # what cannot be seen
    "a\u202eb\u202c", "\u2066a\u2069", "a\u200bb", "\u200d", "a\u00adb", "a\ufeffb", "\u061c",
    "a\x00b", "\x1b[31mred", "\x08", "a\u2028b", "a\x85b", "a\x0cb", "\u3164", "\U000e0041",
    "\u2800", "a\ufe0f", "\ud800", "שלום → עולם", "مرحبا",
    # commands of a job
    "::error::x", "\n::add-mask::x", "##[add-mask]x", "a ##[stop-commands]x", "##[",
]  # fmt: skip


def cmark_html(text: str) -> str:
    options = cmark.Options.CMARK_OPT_UNSAFE | cmark.Options.CMARK_OPT_FOOTNOTES
    options |= cmark.Options.CMARK_OPT_GITHUB_PRE_LANG
    extensions = ["table", "autolink", "strikethrough", "tasklist"]
    return cmark.markdown_to_html_with_extensions(text, options, extensions)


def markdown_it_html(text: str) -> str:
    parser = MarkdownIt("gfm-like", {"html": True, "linkify": True})
    parser.use(footnote_plugin).use(tasklists_plugin).use(dollarmath_plugin)
    return str(parser.render(text))


RENDERERS: dict[str, Callable[[str], str]] = {"cmark": cmark_html, "markdown-it": markdown_it_html}


class Page(HTMLParser):
    """Tags, comments, text outside code, and each piece of code."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[tuple[str, str, str | None]] = set()
        self.comments: list[str] = []
        self.outside: list[str] = []
        self.codes: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {(tag, name, value) for name, value in attrs}
        self.open.append(tag)
        if tag == "code":
            self.codes.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, "tags that do not match"
        self.tags.append(f"/{tag}")

    def handle_data(self, data):
        if "code" in self.open:
            self.codes[-1] += data
        else:
            self.outside.append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_decl(self, decl):
        raise AssertionError(decl)

    unknown_decl = handle_pi = handle_decl

    @property
    def skeleton(self) -> list[str]:
        """The tags but those of code in a line, which depend on the text."""
        return [tag for tag in self.tags if tag.strip("/") != "code"]


def rendered(renderer: str, text: str) -> Page:
    page = Page(RENDERERS[renderer](text))
    assert page.open == []
    assert set(page.tags) <= TAGS | {f"/{tag}" for tag in TAGS}
    assert page.attributes <= ATTRIBUTES
    live = [piece for piece in page.outside if LIVE.search(piece)]
    assert live == []
    return page


def filled(value: Any, texts: Callable[[], str], key: str = "") -> Any:
    """A document in which all but levels are texts of somebody else's."""
    if isinstance(value, dict):
        if key in ("failures", "roles"):
            return {texts(): count for count in value.values()}
        return {name: filled(inner, texts, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, texts) for inner in value]
    if key == "reproduce":
        return f"ingot review {texts()}"
    kept = key in ("verdict", "level") or value in ("none", "pinned", "source", "")
    return texts() if isinstance(value, str) and not kept else value


def all_lines(text: str) -> list[str]:
    return text.split("\n")


@cache
def harmless_page(renderer: str) -> Page:
    return rendered(renderer, render_comment(filled(DOCUMENT, lambda: "word")))


@pytest.fixture(scope="module", params=RENDERERS)
def renderer(request) -> str:
    return str(request.param)


def test_the_document_is_one():
    schema = json.loads(files("ingot.schemas").joinpath("review.schema.json").read_text("utf-8"))
    jsonschema.validate(DOCUMENT, schema)


def test_comment_says_what_a_reviewer_needs(renderer):
    page = rendered(renderer, render_comment(DOCUMENT))
    said = " ".join("".join(page.outside).split())
    assert page.comments == COMMENTS
    assert "ingot review: blocked" in said
    assert "2 block, 2 warn, 1 pass" in said
    assert "records: 200 → 180 (-10.0 %)" in said
    assert "12 of 200 records are identical" in said
    assert "180/200 (90.0 %)" in said  # coverage
    assert "388100/388100 (100.0 %)" in said  # trained on
    assert "2 calls, 5,210 tokens in, 640 tokens out, 0.0031 USD" in said
    assert {"answers[0].text", "answers[*].text picked by best", "bad_pick", "user"} <= {
        *page.codes
    }
    assert "- assistant: You can use the unglazed ring" in "".join(page.codes)
    assert "ingot review --base main --head HEAD --mappings mappings/forum.json\n" in page.codes


def test_blocked_mappings_come_first():
    headings = [line for line in all_lines(render_comment(DOCUMENT)) if line.startswith("#### ")]
    assert [line[5] for line in headings] == ["🔴", "🔴", "🟡", "🟡", "🟢"]


def test_what_differs_in_a_record_is_shown_with_what_is_around_it():
    told = render_comment(DOCUMENT)
    assert "+ user (trained): How do I sharpen a kitchen knife without a stone?\n" in told
    assert "  meta: source forum, language en\n" in told
    assert "- assistant: A hornbeam.\n-   Look at the leaf margin.\n```" in told


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_made_of_an_attack(attack, renderer):
    harmless = harmless_page(renderer)
    page = rendered(renderer, render_comment(filled(DOCUMENT, lambda: attack)))
    assert page.skeleton == harmless.skeleton
    assert page.comments == COMMENTS
    assert printable_line(attack) in page.codes


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_line_is_a_command_of_a_job(attack):
    text = render_comment(filled(DOCUMENT, lambda: attack))
    assert [line for line in all_lines(text) if line.lstrip().startswith("::")] == []
    assert "##[" not in text


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_cannot_be_seen_is_named(attack):
    text = render_comment(filled(DOCUMENT, lambda: attack))
    hidden = [c for c in text if unicodedata.category(c)[0] == "C" and c != "\n"]
    assert hidden == []


HOSTILE = st.text(
    st.one_of(
        st.sampled_from("`|\\\n\r\t@#<>[]()!*_~$:&-+=.^{}\"' /"),
        st.sampled_from("ab1é中א\u202e\u200b\ufe0f😀"),
        st.characters(),
    ),
    max_size=30,
)


@pytest.mark.more
@settings(max_examples=150, deadline=None)
@given(st.lists(HOSTILE, min_size=1, max_size=8))
def test_nothing_is_made_of_any_text(texts):
    pool = cycle(texts)
    hostile = render_comment(filled(DOCUMENT, lambda: next(pool)))
    for renderer in RENDERERS:
        harmless = harmless_page(renderer)
        page = rendered(renderer, hostile)
        assert page.comments == COMMENTS
        for tag in ("table", "details", "h4", "pre", "ul"):
            assert page.tags.count(tag) == harmless.tags.count(tag)


@settings(max_examples=300, deadline=None)
@given(HOSTILE.filter(bool))
def test_a_span_shows_its_text(text):
    for renderer in RENDERERS:
        for source in (
            f"x {code_span(text)} y",
            markdown_table(("a", "b"), [("x", code_span(text))]),
        ):
            page = rendered(renderer, source)
            assert page.codes == [printable_line(text)]


@pytest.mark.more
@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_a_sentence_shows_its_words(text):
    for renderer in RENDERERS:
        html = RENDERERS[renderer](f"x {escape_words(text)}")
        rendered(renderer, f"x {escape_words(text)}")
        shown = re.sub(r"<[^>]*>|\s|&lrm;|\u200e", "", html)
        assert shown == re.sub(r"\s", "", "x" + escaped(printable_line(text)))


def escaped(text: str) -> str:
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


@settings(max_examples=200, deadline=None)
@given(HOSTILE, st.integers(2, 20))
def test_a_block_shows_its_lines(text, columns):
    lines = [f"+ {line}" for line in wrap_text(text, columns)]
    for renderer in RENDERERS:
        page = rendered(renderer, fence_lines(lines, "diff"))
        assert page.codes == ["\n".join(lines) + "\n"]
    whole = "".join(line[2:] for line in lines)
    assert whole == "".join(
        visible_text(line) for line in re.split("\r\n|[\n\r\v\f\x85\u2028\u2029]", text)
    )


def test_lines_are_continued_after_a_blank_if_there_is_one():
    assert list(wrap_text("aa bb cc dd", 6)) == ["aa bb ", "cc dd"]
    assert list(wrap_text("aaaaaaaa", 6)) == ["aaaaaa", "aa"]
    assert list(wrap_text("中文中文中文", 6)) == ["中文中", "文中文"]
    assert list(wrap_text("a\n\nb", 6)) == ["a", "", "b"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("records: 200 → 180 (-10.0 %)", "records: 200 → 180 (-10.0 %)"),
        ("text: title + body", "text: title + body"),
        ('expected "two words", got 3.', 'expected `"two words"`, got 3.'),
        ("path a.b[*].c is gone", "path `a.b[*].c` is gone"),
        ("a 1234567 b", "a `1234567` b"),
        ("the decade of a facade", "the decade of a facade"),
        ("acceded", "`acceded`"),
        ("a  b", "a b"),
        ("", ""),
        ("א and ב", "`א`&lrm; and `ב`&lrm;"),
        ("一条记录 lost", "一条记录 lost"),
    ],
)
def test_words(text, shown):
    assert escape_words(text) == shown


def test_secrets_are_not_shown():
    secret = "canary.bird@secret-host.example"
    said = render_comment(filled(DOCUMENT, lambda: f"write to {secret} today")) + render_summary(
        filled(DOCUMENT, lambda: "x" * 190 + f" {secret}")
    )
    assert "canary" not in said
    assert "[email]" in said


def many(count: int, text: str = "reason", **given: Any) -> dict[str, Any]:
    """A review of so many mappings."""
    one = DOCUMENT["mappings"][1]
    reasons = [{**reason, "text": f"{reason['text']} {text}"} for reason in one["reasons"]]
    mappings = [
        {**one, "path": f"mappings/{number:04}.json", "reasons": reasons, **given}
        for number in range(count)
    ]
    return {**DOCUMENT, "mappings": mappings}


LIMITS = (8_192, 20_000, COMMENT_LIMIT)
CUT = "**The rest is left out: GitHub takes no longer text.** This command shows all:"


@pytest.mark.parametrize("text", ["reason", "中文" * 300, "`" * 300, "@a " * 200])
@pytest.mark.parametrize("count", [1, 2, 40, 500])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_comment_keeps_its_limit_and_says_where_the_rest_is(count, text, limit):
    review = many(count, text)
    said = render_comment(review, limit=limit)
    assert utf8_size(said) <= limit
    facts = f"<!-- verdict: block, mappings: {count} -->"
    assert said.startswith(f"{MARKER}\n{facts}\n### 🔴 ingot review: blocked\n")
    rendered("cmark", said)
    whole = render_comment(review, limit=sys.maxsize)
    if utf8_size(whole) <= limit:
        assert said == whole
    else:
        begun, _, rest = said.partition(CUT)
        assert whole.startswith(begun)
        assert rest == f"\n\n```sh\n{DOCUMENT['reproduce']} --full\n```\n"


@pytest.mark.more
def test_a_whole_comment_says_nothing_of_a_cut():
    assert CUT not in render_comment(DOCUMENT)
    assert CUT in render_comment(many(500))
    assert CUT not in render_summary(many(200))


def test_many_mappings_and_reasons_are_counted():
    said = render_comment(many(50), limit=sys.maxsize)
    assert "\n\nand 10 more: 10 block\n\n" in said
    reasons = DOCUMENT["mappings"][1]["reasons"] * 10
    one = {**DOCUMENT["mappings"][1], "reasons": reasons}
    levels = Counter(reason["level"] for reason in reasons)
    told = render_comment({**DOCUMENT, "mappings": [one]})
    assert f"- and {len(reasons) - MOST_REASONS} more: " in told
    assert levels["block"] > 0


def test_a_review_of_nothing_is_told():
    said = render_comment({**DOCUMENT, "verdict": "pass", "mappings": []})
    assert said.endswith(
        "### 🟢 ingot review: passes\n\n0 mappings changed "
        "between `main` (`8f14e45fceea` left at `c9f0f895fb98`) and `HEAD` (`45c48cce2e2d`).\n"
    )


def test_a_revision_that_is_a_commit_is_told_once():
    commits = DOCUMENT["commits"]
    same = {**commits, "fork": commits["base"]}
    said = render_comment({**DOCUMENT, "base": same["base"], "commits": same})
    assert "between `8f14e45fceea` and `HEAD` (`45c48cce2e2d`):" in said
    said = render_comment({**DOCUMENT, "commits": dict.fromkeys(commits)})
    assert "between `main` and `HEAD`:" in said


def test_where_there_is_no_command_it_is_said():
    one = {**DOCUMENT["mappings"][0], "reproduce": None}
    said = render_comment({**DOCUMENT, "reproduce": None, "mappings": [one]})
    assert "There is none: a name in it" in said


def test_records_that_differ_where_they_are_cut():
    record = [["text", "a" * 5000]]
    example = {
        "kind": "changed",
        "place": "a row 1",
        "old": record,
        "new": [["text", "a" * 4999 + "b"]],
    }
    one = {**DOCUMENT["mappings"][1], "examples": [example]}
    said = render_comment({**DOCUMENT, "mappings": [one]})
    assert "(+4300 characters)" in said
    assert "they differ in parts that are not shown" in said
