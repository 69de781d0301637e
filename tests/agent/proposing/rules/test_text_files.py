"""Plain text files: a text is a line, a file, or neither."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.proposal import Proposal, Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample

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
    return bool(proposal.mapping.get("source", {}).get("root") == "$")


def test_short_files_with_names_of_their_own_are_texts(proposed: Proposed, pool: Any) -> None:
    files = {
        f"{('sport', 'trade')[n % 2]}/{n:03d}.txt": f"{pool.title(n)}\n\n{pool.document(n)}\n\n"
        f"{pool.answer(n)}\n"
        for n in range(12)
    }
    proposal = proposed(files)
    assert _is_whole(proposal)
    assert proposal.mapping is not None
    assert proposal.mapping["meta"]["original_id"] == "~"


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
