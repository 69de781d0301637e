"""Texts in parts: rows and blocks of which some are no text, and columns that say it again."""

import random
from typing import Any

WORDS = [
    "harbour",
    "lemon",
    "clerk",
    "before",
    "ferry",
    "water",
    "counted",
    "under",
    "nine",
    "bridge",
    "copper",
    "slowly",
    "garden",
    "window",
    "letter",
    "winter",
    "remembers",
    "carries",
    "between",
    "orchard",
    "lantern",
    "market",
    "silver",
    "evening",
    "sailor",
    "bell",
    "village",
    "paints",
    "quietly",
    "north",
    "teacher",
    "basket",
    "mill",
    "stone",
    "walks",
    "river",
    "ladder",
    "singing",
    "bread",
    "against",
    "chimney",
    "paper",
    "August",
    "weaver",
    "ceiling",
    "borrowed",
    "candle",
    "miller",
    "thunder",
    "writes",
    "the",
    "a",
    "of",
]


def spoken(n: int, k: int) -> str:
    chosen = random.Random(100 * n + k)
    return " ".join(chosen.choices(WORDS, k=14)).capitalize() + "."


def shuffled(rows: list[Any]) -> list[Any]:
    return [rows[(n * 11 + 3) % len(rows)] for n in range(len(rows))]


def test_segments_follow_the_clock_without_advertisements(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "sendung": f"S-{800 + n}",
            "thema": pool.title(n),
            "beginn": f"00:0{k}:{10 + n}.5",
            "sorte": "Werbung" if k == 1 else "Wort",
            "fassung": spoken(n, k),
        }
        for n in range(9)
        for k in range(4)
    ]
    rows = shuffled(rows[:35])
    outcome = mapped(rows, "pt")
    texts = {r["meta"]["original_id"]: r["text"] for r in outcome.records}
    assert texts["S-802"] == "\n".join(spoken(2, k) for k in (0, 2, 3))


def test_paragraphs_are_numbered_in_tens_and_have_old_wordings(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "satzung": f"HS-{300 + n}",
            "gegenstand": pool.title(n),
            "lfd": 10 * k + 10,
            "wortlaut": spoken(n, k),
            "bis_2019": spoken(n, k)[:-1] + " and all the rest." if k == 2 else "",
        }
        for n in range(9)
        for k in range(3)
    ]
    outcome = mapped(shuffled(rows[:26]), "pt")
    assert outcome.mapping["group"] == {"by": ["satzung"], "sort": "lfd"}
    texts = {r["meta"]["original_id"]: r["text"] for r in outcome.records}
    assert texts["HS-304"] == "\n".join(spoken(4, k) for k in range(3))


def test_an_old_wording_has_the_number_of_the_new_one(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "article": f"A-{n:03}",
            "heading": pool.title(n),
            "no": k + 1,
            "wording": spoken(n, k if current == "yes" else k + 9),
            "in_force": current,
        }
        for n in range(9)
        for k in range(3)
        for current in (("yes", "no") if k == 1 else ("yes",))
    ]
    outcome = mapped(shuffled(rows[:35]), "pt")
    texts = {r["meta"]["original_id"]: r["text"] for r in outcome.records}
    assert texts["A-002"] == "\n".join(spoken(2, k) for k in range(3))


def test_the_type_of_a_paragraph_is_no_heading(mapped: Any, pool: Any) -> None:
    kinds = ("p", "promo", "q", "p")
    rows = [
        {
            "title": pool.title(n),
            "parts": [{"t": kind, "words": spoken(n, k)} for k, kind in enumerate(kinds)],
        }
        for n in range(9)
    ]
    text = mapped(rows, "pt").text(1)
    assert spoken(1, 1) not in text
    assert text.endswith("\n".join(spoken(1, k) for k in (0, 2, 3)))


def test_sentences_that_say_the_body_again_are_left_out(mapped: Any) -> None:
    bodies = [" ".join(spoken(n, k) for k in range(4)) for n in range(12)]
    names = ("Harrow", "Stell", "Oban", "Lerwick", "Mallaig", "Tarbert")
    rows = [
        {
            "gist": f"About {names[n % 6]}: {body.split('.')[0].lower()} again.",
            "whole": f"{names[n % 6]} harbour, pier {n}. {body}",
        }
        for n, body in enumerate(bodies)
    ]
    assert mapped(rows, "pt").mapping["text"] == "whole"


def test_a_table_lies_below_a_key(mapped: Any, pool: Any) -> None:
    columns = ["nr", "kop", "verhaal"]
    data = [[f"V{n}", pool.title(n), pool.document(n)] for n in range(12)]
    held = {"versie": "3", "tabel": {"columns": columns, "data": data}}
    outcome = mapped(held, "pt", name="tabel")
    assert outcome.mapping["source"] == {"root": "tabel", "orient": "split"}
    assert outcome.text(3).endswith(pool.document(3))


def test_a_text_cut_at_a_width_is_put_together_without_a_break(mapped: Any) -> None:
    texts = [" ".join(spoken(n, k) for k in range(3)) for n in range(12)]
    rows = [
        {
            "KEY": f"{n:06}",
            "SUCH": text[:50].upper(),
            **{f"ZEILE{k:02}": text[k * 80 :][:80] or None for k in range(5)},
        }
        for n, text in enumerate(texts)
    ]
    assert [record["text"] for record in mapped(rows, "pt").records] == texts


def test_a_mark_for_nothing_is_no_text(mapped: Any, pool: Any) -> None:
    rows = [{"id": n, "text": "\\N" if n % 4 == 1 else pool.document(n)} for n in range(12)]
    assert len(mapped(rows, "pt").records) == 9


def test_rows_are_attributes_of_a_thing(mapped: Any, pool: Any) -> None:
    rows = [
        {"entity": f"E-{400 + n}", "prop": prop, "val": val}
        for n in range(12)
        for prop, val in (
            ("name", pool.title(n)),
            ("year", str(1900 + n)),
            ("colour", ("red", "blue", "green")[n % 3]),
            ("story", pool.document(n)),
            ("teaser", pool.document(n)[:30] + "…"),
        )
    ]
    outcome = mapped(shuffled([*rows, {**rows[0], "entity": "E-500"}]), "pt")
    assert {r["text"] for r in outcome.records} == {pool.document(n) for n in range(12)}
