"""The meta keys: which columns say them, and what is left alone."""

from typing import Any

import pytest

from ingot.agent.proposing.rules.answers.sides import detect_language


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("ko", ["몰라요.", "어디 가요?", "오늘 비 와요."]),
        ("th", ["ฉันไม่รู้", "คุณไปไหน"]),
        ("el", ["Δεν ξέρω.", "Πού πας;"]),
        ("ja", ["知りません。", "今日は雨です。", "大丈夫。"]),
        ("zh", ["我不知道。", "请解释 Python 的 GIL。"]),
        ("pl", ["Nie wiem.", "Dokąd idziesz?", "Dziś pada deszcz."]),
        ("uk", ["Не знаю.", "Куди ти йдеш?", "Сьогодні дощ."]),
        (None, ["12", "3.5", "?"]),
    ],
)
def test_short_texts_tell_their_language_together(code: str | None, texts: list[str]) -> None:
    assert detect_language(texts)[0] == code


def _documents(pool: Any, **columns: Any) -> list[dict[str, Any]]:
    """Rows of a text and further columns, each given by its number."""
    return [
        {**{name: make(n) for name, make in columns.items()}, "text": pool.document(n)}
        for n in range(12)
    ]


def test_whole_numbers_spelt_as_fractions_identify(mapped: Any, pool: Any) -> None:
    rows = _documents(pool, row_id=lambda n: 4000.0 + n, weight_id=lambda n: n / 7)
    assert mapped(rows, "pt").meta["original_id"] == "row_id"


def test_an_answer_is_told_by_its_own_id(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question_id": 500 + n,
            "answer_id": 9000 + n,
            "question": pool.question(n),
            "answer": pool.answer(n),
        }
        for n in range(10)
    ]
    assert mapped(rows, "sft").meta["original_id"] == "answer_id"


def test_a_file_name_identifies_where_nothing_else_does(mapped: Any, pool: Any) -> None:
    rows = _documents(pool, file=lambda n: f"letters/box/{n}.")
    assert mapped(rows, "pt").meta["original_id"] == "file"
    rows = _documents(pool, file=lambda n: f"letters/box/{n}.", doc_id=lambda n: f"L{n}")
    assert mapped(rows, "pt").meta["original_id"] == "doc_id"


def test_a_language_is_one_language(mapped: Any, pool: Any) -> None:
    rows = _documents(
        pool,
        page_language=lambda n: ("eng,fra", "eng,deu")[n % 2],
        langdetect=lambda n: ("en", "en-GB")[n % 2],
    )
    assert mapped(rows, "pt").meta["language"] == "langdetect"


@pytest.mark.parametrize("spelt", ["202103{:02d}", "03-{:02d} 12:00", "2021년 3월 {}일"])
def test_points_in_time(mapped: Any, pool: Any, spelt: str) -> None:
    rows = _documents(pool, time=lambda n: spelt.format(n + 1))
    assert mapped(rows, "pt").meta["timestamp"] == "time"


def test_numbers_that_are_no_dates(mapped: Any, pool: Any) -> None:
    rows = _documents(pool, time=lambda n: f"{98765432 + n}")
    assert "timestamp" not in mapped(rows, "pt").meta


def test_a_column_of_which_some_values_are_times_is_no_timestamp(mapped: Any, pool: Any) -> None:
    paper = ("{}年物理试卷", "{}-06-07", "{}年6月")
    rows = _documents(pool, date=lambda n: paper[n % 3].format(2000 + n))
    assert "timestamp" not in mapped(rows, "pt").meta


def test_a_score_of_the_text(mapped: Any, pool: Any) -> None:
    rows = _documents(pool, score=lambda n: 0.21 + n / 19)
    assert mapped(rows, "pt").meta["quality_score"] == "score"


@pytest.mark.parametrize("score", [lambda n: n % 2, lambda n: 1.5 + n / 3])
def test_votes_and_marks_are_no_score(mapped: Any, pool: Any, score: Any) -> None:
    assert "quality_score" not in mapped(_documents(pool, score=score), "pt").meta


def test_names_as_answers_are_in_no_other_language(mapped: Any, pool: Any) -> None:
    names = ("Copernicus", "Vasco da Gama", "La Paz", "Bolzano", "Le Havre", "El Greco")
    rows = [{"question": pool.question(n), "answer": names[n % 6]} for n in range(12)]
    assert mapped(rows, "sft").meta["language"] == {"literal": "en"}


def test_sides_in_different_languages_have_none(mapped: Any, pool: Any) -> None:
    said = (
        "Die alte Brücke wurde im Sommer {} von Hand erneuert.",
        "Viele Familien erinnern sich noch heute an den Winter {}.",
    )
    rows = [
        {"question": pool.question(n), "answer": said[n % 2].format(1800 + n)} for n in range(12)
    ]
    assert "language" not in mapped(rows, "sft").meta


def test_languages_that_no_table_holds(mapped: Any, pool: Any) -> None:
    spoken = ("English", "Traditional Chinese", "Yoruba", "Sinhala")
    rows = _documents(pool, language=lambda n: spoken[n % 4])
    assert mapped(rows, "pt").meta["language"] == "language"
    rows = _documents(pool, language=lambda n: ("Python", "Go", "C++", "Rust")[n % 4])
    assert mapped(rows, "pt").meta["language"] == {"literal": "en"}


def test_marks_with_a_number_identify(mapped: Any, pool: Any) -> None:
    rows = _documents(pool, fname=lambda n: f"train_{n}", speaker_id=lambda n: f"s{n}")
    assert mapped(rows, "pt").meta["original_id"] == "fname"
    rows = _documents(pool, place=lambda n: f"Hall {n}")
    assert "original_id" not in mapped(rows, "pt").meta


def test_what_all_turns_share_is_said_of_the_conversation(mapped: Any, pool: Any) -> None:
    def turn(role: str, text: str, n: int) -> dict[str, Any]:
        return {"role": role, "content": text, "lang": ("en", "und")[n % 2], "mood_lang": role}

    rows = [
        {"turns": [turn("user", pool.question(n), n), turn("assistant", pool.answer(n), n)]}
        for n in range(10)
    ]
    assert mapped(rows, "sft").meta["language"] == "turns[0].lang"


def test_the_record_speaks_before_its_parts(mapped: Any, pool: Any) -> None:
    rows = _documents(
        pool, langs=lambda n: [("fi", "sv")[n % 2]] * 2, document_lang=lambda n: ("en", "de")[n % 2]
    )
    assert mapped(rows, "pt").meta["language"] == "document_lang"


def test_the_time_of_the_text_goes_before_that_of_its_fetching(mapped: Any, pool: Any) -> None:
    rows = _documents(
        pool,
        crawl_time=lambda n: 1_600_000_000 + n,
        updated_at=lambda n: f"2021-03-{n + 1:02d}",
        created_at=lambda n: f"2020-03-{n + 1:02d}",
    )
    assert mapped(rows, "pt").meta["timestamp"] == "created_at"


def test_marks_with_hyphens_are_no_dates(mapped: Any, pool: Any) -> None:
    rows = [{"id": f"10{n:02d}-{n + 1}-1", "text": pool.document(n)} for n in range(12)]
    assert mapped(rows, "pt").meta["original_id"] == "id"


def test_an_id_stands_twice_where_its_row_does(mapped: Any, pool: Any) -> None:
    rows = [{"id": f"a{n}", "text": pool.document(n)} for n in range(11)]
    assert mapped([*rows, rows[0]], "pt").meta["original_id"] == "id"


def test_ids_with_names_of_two_scripts(mapped: Any, pool: Any) -> None:
    rows = [{"作品ID": f"{n * 7:06d}", "本文": pool.answer_zh(n)} for n in range(12)]
    assert mapped(rows, "pt").meta["original_id"] == "作品ID"


def test_a_column_that_hardly_any_row_has_identifies_none(mapped: Any, pool: Any) -> None:
    rows = [{"text": pool.document(n), **({"id": f"x{n}"} if n < 2 else {})} for n in range(24)]
    assert "original_id" not in mapped(rows, "pt").meta
