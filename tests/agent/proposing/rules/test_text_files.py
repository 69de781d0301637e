"""Plain text files: a text is a line, a file, or neither."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.proposal import Proposal, Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document

Proposed = Callable[[dict[str, str]], Proposal]


@pytest.fixture
def proposed(tmp_path: Path) -> Proposed:
    """Files of a folder to the proposal for them."""

    def run(files: dict[str, str]) -> Proposal:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        source = open_source(str(tmp_path))
        return propose(source, draw_sample(source), Request(mode="pt"))

    return run


def _is_whole(proposal: Proposal) -> bool:
    assert proposal.mapping is not None
    return bool(document(proposal.mapping).get("source", {}).get("root") == "$")


def test_short_files_with_names_of_their_own_are_texts(proposed: Proposed, pool: Any) -> None:
    files = {
        f"{('sport', 'trade')[n % 2]}/{n:03d}.txt": f"{pool.title(n)}\n\n{pool.document(n)}\n\n"
        f"{pool.answer(n)}\n"
        for n in range(12)
    }
    proposal = proposed(files)
    assert _is_whole(proposal)
    assert proposal.mapping is not None
    assert document(proposal.mapping)["meta"]["original_id"] == "~"


def test_lines_of_splits_are_texts(proposed: Proposed, pool: Any) -> None:
    files = {
        f"{split}.{n}.txt": "\n".join(pool.document(n + k) for k in range(9))
        for split in ("train", "valid", "test")
        for n in range(3)
    }
    assert not _is_whole(proposed(files))


def test_blocks_of_lines_are_left_to_a_person(proposed: Proposed, pool: Any) -> None:
    blocks = "\n\n".join(f"{pool.document(n)}\n{pool.answer(n)}" for n in range(12))
    assert proposed({"all.txt": blocks}).confidence < 0.5


def test_lines_with_blank_ones_between_are_texts(proposed: Proposed, pool: Any) -> None:
    proposal = proposed({"all.txt": "\n\n".join(pool.document(n) for n in range(12))})
    assert not _is_whole(proposal)
    assert proposal.confidence > 0.5


def test_words_with_labels_are_no_text(proposed: Proposed, pool: Any) -> None:
    words = " ".join(pool.document(n) for n in range(9)).split()
    lines = "\n".join(f"{word} NN {'BIO'[n % 3]}" for n, word in enumerate(words))
    assert proposed({"tags.txt": lines}).decision == "irrelevant"


def test_fields_of_letters_are_no_speakers(mapped: Any, pool: Any) -> None:
    rows = [
        {"text": f"From: a{n}@x.example\nSubject: {pool.title(n)}\n\n{pool.document(n)}\n"}
        for n in range(12)
    ]
    assert mapped(rows, "auto").proposal.decision == "pt"


def _paragraphs(pool: Any, start: int, *, speech: bool = True) -> list[str]:
    """Paragraphs of one line each; every third one is said by somebody."""
    told = [f"{pool.document(n)} {pool.answer(n)}" * (1 + n % 3) for n in range(start, start + 40)]
    return [f'"{one}" she said.' if speech and n % 3 == 0 else one for n, one in enumerate(told)]


def _book(pool: Any, title: str, start: int) -> str:
    return "\n\n".join([f"# Title: {title}", "CHAPTER I", *_paragraphs(pool, start)])


@pytest.mark.parametrize(
    "names",
    [
        ("emma.txt", "moby_dick.txt", "the trial.txt"),
        ("shelf/Walden (1854).txt", "shelf/Faust I.txt"),
        ("chapter_01.txt", "chapter_02.txt", "chapter_10.txt"),
        ("第1章.txt", "第2章.txt"),
        ("pg1000.txt", "pg1001.txt", "pg1002.txt"),
        ("part-00000.txt", "part-00001.txt"),
        ("01.txt", "02.txt", "03.txt"),
    ],
)
def test_books_in_paragraphs_are_whole_texts(
    proposed: Proposed, pool: Any, names: tuple[str, ...]
) -> None:
    proposal = proposed({name: _book(pool, name, 60 * n) for n, name in enumerate(names)})
    assert _is_whole(proposal)
    assert proposal.confidence >= 0.6
    assert proposal.mapping is not None
    assert document(proposal.mapping)["meta"]["original_id"] == "~"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("books.txt", "kitchen.txt", "music.txt"), "plain"),  # reviews of departments
        (("01.txt", "02.txt", "03.txt"), "titled"),  # chapters, or parts of a corpus
        (("pg1000.txt", "pg1001.txt"), "titled"),
        (("emma.txt",), "book"),  # a work, or several in one file
        (("emma.txt",), "titled"),
        (("train.txt", "valid.txt", "test.txt"), "book"),
    ],
)
def test_what_may_be_books_is_for_a_person(
    proposed: Proposed, pool: Any, names: tuple[str, ...], text: str
) -> None:
    heads = {"book": ["# Title", "CHAPTER I"], "titled": ["# Title"], "plain": []}[text]
    files = {
        name: "\n\n".join([*heads, *_paragraphs(pool, 60 * n, speech=False)])
        for n, name in enumerate(names)
    }
    proposal = proposed(files)
    assert proposal.mapping is not None
    assert document(proposal.mapping)["source"] == {"format": "text", "root": "[*]"}
    assert proposal.confidence < 0.6
    assert "each file is one work" in proposal.evidence[0].why


@pytest.mark.parametrize(
    "names",
    [
        ("corpus.txt",),
        ("part-00000.txt", "part-00001.txt", "part-00002.txt"),
        ("wiki_00.txt", "wiki_01.txt"),
        ("train.txt", "valid.txt", "test.txt"),
    ],
)
def test_documents_on_lines_with_blank_ones_between_are_read_by_lines(
    proposed: Proposed, pool: Any, names: tuple[str, ...]
) -> None:
    proposal = proposed(
        {name: "\n\n".join(_paragraphs(pool, 60 * n, speech=False)) for n, name in enumerate(names)}
    )
    assert not _is_whole(proposal)
    assert proposal.mapping is not None
    assert proposal.mapping.source == SourceSpec()
    assert proposal.confidence > 0.6


def test_files_of_sentences_are_read_by_lines(proposed: Proposed, pool: Any) -> None:
    files = {
        name: "\n\n".join(f"The harbour of {n} is old and quiet." for n in range(40))
        for name in ("a.txt", "b.txt")
    }
    assert not _is_whole(proposed(files))
    assert proposed(files).mapping == proposed({"a.txt": files["a.txt"]}).mapping
