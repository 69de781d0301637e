"""What a mapping leaves behind: files, texts, images."""

from collections import Counter

import pytest

from ingot.converters.mapping.loss import measure_loss
from ingot.converters.sources.text_kinds import is_wordless


def test_a_file_that_gives_nothing_is_named() -> None:
    told = measure_loss({"a": 9, "b": 5, "c": 2}, Counter(a=9), [], [])
    assert told.silent_files == (("b", 5),)  # of `c` too few rows were seen
    assert measure_loss({"a": 9}, Counter(), [], []).silent_files == ()  # that is another gate


def test_every_text_counts_once() -> None:
    rows = [
        {"licence": "All rights are reserved.", "text": f"This is text number {n}."} for n in (1, 2)
    ]
    assert measure_loss({}, Counter(), [], rows).text_chars == 24 + 2 * 22


@pytest.mark.parametrize(("words", "held"), [(8, 1), (40, 0)])
def test_a_caption_belongs_to_its_image_an_article_does_not(words: int, held: int) -> None:
    example = ({"image_url": "https://a.example/1.jpg"}, {"text": "word " * words})
    assert measure_loss({}, Counter(), [example], []).captions == held


@pytest.mark.parametrize(
    ("text", "wordless"),
    [
        ("out-1381216f", True),
        ("s3://bucket/calls/1.wav", True),
        ("xxxx xx xxxxxx xxx, xx xxxx.", True),
        ("x=3+2y^2-7", False),
        ("Yes", False),
        ("1234567890", False),
        ("Internationalization", False),
        ("第3号仓库里还剩多少箱苹果", False),
    ],
)
def test_texts_without_words(text: str, wordless: bool) -> None:
    assert is_wordless(text) is wordless
