"""Documents that rows hold twice, in parts, in blocks, or in versions of which one holds."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.proposal import Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document

PLACES = [
    "harbour",
    "mill",
    "tower",
    "bridge",
    "orchard",
    "market",
    "quarry",
    "well",
    "inn",
    "farm",
]
TRADES = [
    "cooper",
    "dyer",
    "tanner",
    "smith",
    "weaver",
    "baker",
    "mason",
    "potter",
    "miner",
    "cook",
]
MOODS = ["slowly", "proudly", "rarely", "quietly", "loudly", "seldom", "gladly", "badly", "early"]


def prose(n: int, part: int = 0) -> str:
    """Two sentences of which few words are those of other rows."""
    place, trade, mood = PLACES[n % 10], TRADES[(n * 3 + part) % 10], MOODS[(n + 2 * part) % 9]
    other = PLACES[(n * 7 + part + 1) % 10]
    return f"Our {place} pleased every {trade} who {mood} came by. Some {other} keeps {n} {part}."


def mapping_of(folder: Path) -> tuple[dict[str, Any], float]:
    source = open_source(str(folder))
    proposal = propose(source, draw_sample(source), Request(mode="pt"))
    return document(proposal.mapping), proposal.confidence


@pytest.mark.parametrize("marked", ["{}", "**{}**"])
def test_of_a_text_in_two_markups_the_one_without_tags_is_taken(mapped: Any, marked: str) -> None:
    rows = [
        {
            "rendered": f"<article><p>{prose(n)}</p><p>{prose(n, 1)}</p></article>",
            "src": marked.format(prose(n)) + "\n\n" + prose(n, 1),
        }
        for n in range(12)
    ]
    assert mapped(rows, "pt").mapping["text"] == "src"


def test_previews_machine_texts_notes_and_templates_are_not_joined(mapped: Any) -> None:
    rows = [
        {
            "head": f"The {PLACES[n % 10]} {n}",
            "body": f"{prose(n)} {prose(n, 1)} {prose(n, 2)}",
            "list_view": f"{prose(n)} {prose(n, 1)}"[:60],
            "gist_gpt": f"A {TRADES[n % 10]} {MOODS[n % 9]} visits {PLACES[n % 10]} number {n}.",
            "interne": f"Ask {TRADES[n % 10]} about number {n} before it goes out to print.",
            "blurb": f"In this week's issue we read about {PLACES[n % 10]}. Write to us any time.",
        }
        for n in range(12)
    ]
    assert mapped(rows, "pt").mapping["text"] in ("body", ["head", "body"])


@pytest.mark.parametrize(("flag", "yes", "no"), [("vigente", "sí", "no"), ("最新", "是", "否")])
def test_only_versions_that_hold_now_are_documents(
    mapped: Any, flag: str, yes: str, no: str
) -> None:
    rows = [
        {"page": f"p{n // 2}", flag: yes if n % 2 else no, "text": prose(n, 1)} for n in range(16)
    ]
    assert mapped(rows, "pt").mapping["where"] == [{"path": flag, "not_in": [no]}]


def test_a_coded_status_is_read_from_rows_that_another_one_replaces(mapped: Any) -> None:
    rows = [
        {"case_id": f"K-{4000 + n}", "doc_state": "7" if n % 4 else "9", "text": prose(n)}
        for n in range(12)
    ]
    rows += [{"case_id": f"K-{4000 + n}", "doc_state": "3", "text": prose(n, 1)} for n in range(5)]
    assert mapped(rows, "pt").mapping["where"] == [{"path": "doc_state", "not_in": ["3"]}]


def test_a_status_that_nobody_understands_makes_unsure(mapped: Any) -> None:
    rows = [{"rec_status": "QRS"[n % 3], "text": prose(n)} for n in range(15)]
    outcome = mapped(rows, "pt")
    assert outcome.proposal.confidence <= 0.5


def test_rows_without_a_time_of_publication_are_drafts_of_others(mapped: Any) -> None:
    rows = [
        {"slug": f"s{n:02d}-x", "released": f"2024-03-{n + 1:02d}T08:00:00", "text": prose(n)}
        for n in range(12)
    ]
    rows += [{"slug": f"s{n:02d}-x", "released": None, "text": prose(n, 1)} for n in range(3)]
    assert mapped(rows, "pt").mapping["where"] == [{"path": "released", "min_chars": 1}]


def test_a_first_row_of_labels_is_no_document(mapped: Any) -> None:
    rows = [{"V1": "Case number", "V2": "Day of entry", "V3": "What was found"}]
    rows += [{"V1": f"A{n}7", "V2": f"2023-05-{n + 1:02d}", "V3": prose(n)} for n in range(12)]
    assert [one["not_in"] for one in mapped(rows, "pt").mapping["where"]] == [["Case number"]]


def test_a_frame_of_texts_with_numbered_rows_is_a_table(tmp_path: Path) -> None:
    columns = {
        "shelf": {str(3 * n): f"R/{n}" for n in range(12)},
        "entry": {str(3 * n): prose(n) for n in range(12)},
    }
    (tmp_path / "dump.json").write_text(json.dumps(columns))
    mapping, _ = mapping_of(tmp_path)
    assert mapping["source"] == {"orient": "columns"}
    assert mapping["text"] == "entry"


@pytest.mark.parametrize("whole", [True, False])
def test_texts_with_notes_of_the_same_name_are_the_data(tmp_path: Path, whole: bool) -> None:
    for n in range(8):
        name = f"{PLACES[n]}_{TRADES[n]}"
        text = f"{prose(n)}\n{prose(n, 1)}\n{prose(n, 2)}"
        note = {"signed": TRADES[n], "boxes": [n] * 60, "about": "Two short words."}
        (tmp_path / f"{name}.txt").write_text(text)
        (tmp_path / f"{name}.json").write_text(
            json.dumps({**note, "transcription": text + " " + prose(n, 3)} if whole else note)
        )
    mapping, _ = mapping_of(tmp_path)
    assert mapping["text"] == ("transcription" if whole else "text")


def test_blocks_hold_their_text_under_the_name_of_their_type(mapped: Any) -> None:
    def block(kind: str, text: str) -> dict[str, Any]:
        pieces = [{"raw": text[:9], "bold": True}, {"raw": text[9:], "bold": False}]
        return {"kind": kind, kind: {"spans": pieces}}

    rows = [
        {
            "content": [
                block("subhead", f"On {PLACES[n % 10]} and {TRADES[n % 10]}"),
                block("para", prose(n)),
                {"kind": "photo", "photo": {"src": f"https://x.example/{n}.jpg", "alt": "A view"}},
                block("para", prose(n, 1)),
            ]
        }
        for n in range(12)
    ]
    head = f"On {PLACES[2]} and {TRADES[2]}"
    assert mapped(rows, "pt").text(2) == "\n".join([head, prose(2), prose(2, 1)])


def test_blocks_hold_their_text_in_fields_of_their_type(mapped: Any) -> None:
    rows = [
        {
            "zones": [
                {"type": "passage", "copy": prose(n)},
                {"type": "pull_quote", "quote": f"{MOODS[n % 9]} as ever, {n}!", "cite": "A. B."},
                {"type": "image", "href": f"https://x.example/{n}.png", "caption": prose(n, 5)},
                {"type": "passage", "copy": prose(n, 1)},
            ]
        }
        for n in range(12)
    ]
    quote = f"{MOODS[3]} as ever, 3!"
    assert mapped(rows, "pt").text(3) == "\n".join([prose(3), quote, prose(3, 1)])


def test_numbered_paragraphs_of_one_text_are_gathered(mapped: Any) -> None:
    rows = [
        {"deed": f"D{700 + n}", "seen": f"1902-0{n + 1}-11", "par": k, "words": prose(n, k)}
        for n in range(6)
        for k in (3, 1, 2)
    ]
    mapping = mapped(rows, "pt").mapping
    assert mapping["group"] == {"by": ["deed"], "sort": "par"}
    assert mapping["text"] == "[*].words"


def test_versions_of_one_text_are_not_gathered(mapped: Any) -> None:
    rows = [
        {
            "deed": f"D{700 + n}",
            "seen": f"1902-0{n + 1}-11",
            "par": k,
            "words": prose(n) + " And." * k,
        }
        for n in range(6)
        for k in (1, 2, 3)
    ]
    outcome = mapped(rows, "pt")
    assert "group" not in outcome.mapping
    assert outcome.proposal.confidence < 0.6


def test_a_long_text_of_unknown_meaning_makes_unsure(mapped: Any) -> None:
    rows = [
        {"article_text": f"{prose(n)} {prose(n, 1)}", "zzq": f"{prose(n, 2)} {prose(n, 3)}"}
        for n in range(30)
    ]
    assert mapped(rows, "pt").proposal.confidence < 0.6
