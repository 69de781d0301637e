"""Running text told from names and numbers, and what joins it."""

from typing import Any

FIRST = ("Anna", "Boris", "Chloe", "David", "Elena", "Frida")
LAST = ("Petersen", "Ivanova", "Marchetti", "Oliveira", "Nowakowski", "Lindgren")


def _person(n: int) -> str:
    return f"{LAST[n % 6]}, Mrs. {FIRST[n // 2 % 6]} ({FIRST[n % 5]} {LAST[n % 4]})"


def test_names_of_people_are_no_text(mapped: Any) -> None:
    rows = [
        {"ship": n, "Name": _person(n), "age": n + 20, "fare": n / 3, "deck": "AB"[n % 2]}
        for n in range(24)
    ]
    assert mapped(rows, "pt").proposal.decision == "irrelevant"


def test_short_sentences_are_text(mapped: Any) -> None:
    rows = [{"text": f"Then {FIRST[n % 6]} said so again {n} times."} for n in range(24)]
    assert mapped(rows, "pt").proposal.decision == "pt"


def test_vectors_in_text_are_no_text(mapped: Any, pool: Any) -> None:
    words = pool.document(1).split()
    lines = [f"{word} " + " ".join(f"{(n * 37 + k) % 91 / 90:.5f}" for k in range(12))
             for n, word in enumerate(words)]  # fmt: skip
    assert mapped("\n".join(lines), "pt", name="vec.txt").proposal.decision == "irrelevant"


def test_lines_of_the_text_are_not_said_twice(mapped: Any, pool: Any) -> None:
    def parts(n: int) -> list[str]:
        return [f" {pool.document(n)}", f" {pool.answer(n)}"]

    rows = [
        {"text": "".join(parts(n)), "segments": [{"at": k, "text": t} for k, t in
         enumerate(parts(n))]}
        for n in range(9)
    ]  # fmt: skip
    assert mapped(rows, "pt").mapping["text"] == "text"


def test_a_heading_of_one_word_goes_before_the_body(mapped: Any, pool: Any) -> None:
    words = [pool.thing(n).split(" ")[-1].title() for n in range(12)]
    rows = [{"title": word, "text": pool.document(n)} for n, word in enumerate(words)]
    assert mapped(rows, "pt").mapping["text"] == ["title", "text"]


def test_a_mark_of_one_word_does_not(mapped: Any, pool: Any) -> None:
    rows = [{"title": f"doc_{n:04d}", "text": pool.document(n)} for n in range(12)]
    assert mapped(rows, "pt").mapping["text"] == "text"


def test_texts_of_equal_standing_do_without_each_other(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "first_part": pool.document(n) if n % 3 else "",
            "second_part": pool.answer(n),
        }
        for n in range(12)
    ]
    assert len(mapped(rows, "pt").records) == 12


def test_a_numbered_family_is_taken_whole(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "section_1": pool.document(n),
            "section_2": pool.answer(n),
            "section_2A": "None." if n == 3 else "",
            "page_1": f"p{n}",
        }
        for n in range(9)
    ]
    assert mapped(rows, "pt").mapping["text"] == ["section_1", "section_2", "section_2A"]


def test_lines_between_marks_are_pieces(mapped: Any, pool: Any) -> None:
    lines = [line for n in range(9) for line in (pool.document(n), pool.answer(n), "<|end|>")]
    assert mapped("\n".join(lines), "pt", name="tales.txt").proposal.confidence < 0.5


def test_a_record_has_a_text_of_its_own(mapped: Any, pool: Any) -> None:
    rows = [
        {"text": pool.document(n), "links": [{"to": f"p{k}", "at": k} for k in range(4)]}
        for n in range(9)
    ]
    outcome = mapped(rows, "pt")
    assert "each" not in outcome.mapping
    assert len(outcome.records) == 9


def test_a_heading_that_is_said_twice_is_taken_once(mapped: Any, pool: Any) -> None:
    rows = [
        {"title": pool.title(n), "page": {"title_full": pool.title(n)}, "text": pool.document(n)}
        for n in range(9)
    ]
    assert mapped(rows, "pt").mapping["text"] == ["title", "text"]


def test_lists_of_sentences_keyed_by_id(mapped: Any, pool: Any) -> None:
    dump = {f"PM{n}": [pool.document(n), pool.answer(n)] for n in range(12)}
    outcome = mapped(dump, "pt", name="dump")
    assert outcome.text(1) == f"{pool.document(1)}\n{pool.answer(1)}"
    assert outcome.meta["original_id"] == "~"


def test_letters_without_words_are_no_text(mapped: Any) -> None:
    rows = [
        {"text": "".join("ACDEFGHIKLMNPQRSTVWY"[(n * k * k + k) % 20] for k in range(70))}
        for n in range(1, 14)
    ]
    assert mapped(rows, "pt").proposal.decision == "irrelevant"


def test_a_nameless_heading_is_right_before_its_text(mapped: Any, pool: Any) -> None:
    def lines(*cells: Any) -> str:
        return "\n".join(
            ",".join(f'"{cell(n)}"' for cell in (lambda n: n % 3 + 1, *cells)) for n in range(12)
        )

    def hall(n: int) -> str:
        return f"{LAST[n % 6]} {FIRST[n // 2 % 6]} Hall"

    text = lines(hall, pool.document)
    assert mapped(text, "pt", name="train.csv").mapping["text"] == ["c1", "c2"]
    text = lines(hall, lambda n: f"2020-01-{n + 1:02d}", pool.document)
    assert mapped(text, "pt", name="train.csv").mapping["text"] == "c3"


def test_keywords_in_one_text_are_no_text(mapped: Any, pool: Any) -> None:
    rows = [
        {"abst": pool.document(n), "keywords_": f"{pool.thing(n)}_water rights_old crafts_{n}th"}
        for n in range(12)
    ]
    assert mapped(rows, "pt").mapping["text"] == "abst"


def test_a_short_heading_by_name_goes_before_its_text(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "product_name": f"Kettle of hammered copper with wooden handle, {n} litres, round",
            "review_title": [
                "Good",
                "Fine",
                "Poor",
                "Late",
                "Heavy",
                "Small",
                "Nice",
                "Bad",
                "Loud",
                "Cheap",
                "Dear",
                "Odd",
            ][n],
            "review_text": pool.document(n),
        }
        for n in range(12)
    ]
    assert mapped(rows, "pt").mapping["text"] == ["review_title", "review_text"]
