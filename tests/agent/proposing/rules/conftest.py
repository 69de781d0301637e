"""Small made-up texts, and the way from rows to what the proposed mapping makes of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.proposal import Proposal, Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.converters.mapping.bind import bind_tree
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document

THINGS = (
    "the old harbour", "a copper kettle", "the night train", "an olive tree", "the city library",
    "a stone bridge", "the weekly market", "a paper lantern", "the river ferry", "a clay oven",
    "the north tower", "a rowing boat",
)  # fmt: skip


class Pool:
    """Texts by number, all different."""

    rows = len(THINGS)

    def question(self, n: int) -> str:
        """A question in English."""
        return f"Why do people still talk about {THINGS[n % self.rows]}, and since when?"

    def answer(self, n: int) -> str:
        """A longer text in English that answers it."""
        thing = THINGS[n % self.rows]
        return (
            f"People talk about {thing} because it was repaired by hand in the year {1800 + n}. "
            f"The work took {n + 3} summers, and many families remember it."
        )

    def document(self, n: int) -> str:
        """Three sentences in English."""
        thing = THINGS[n % self.rows]
        return (
            f"On a quiet morning {thing} was shown to {n + 20} visitors. "
            "Nobody had seen it so close before. "
            "Afterwards the guide explained how the craft is taught today, and why so few learn it."
        )

    def title(self, n: int) -> str:
        """A headline."""
        return f"What became of {THINGS[n % self.rows]}"

    def thing(self, n: int) -> str:
        """Two or three words."""
        return THINGS[n % self.rows]

    def question_zh(self, n: int) -> str:
        """A question in Chinese."""
        return f"第{n}号仓库里还剩多少箱苹果？请说明理由。"

    def answer_zh(self, n: int) -> str:
        """An answer in Chinese."""
        return f"第{n}号仓库里还剩{n + 12}箱苹果，因为昨天运走了三箱，今天又收到了五箱新鲜的苹果。"


@dataclass(frozen=True)
class Outcome:
    """A proposal and the records that it gives."""

    proposal: Proposal
    records: list[dict[str, Any]]

    @property
    def mapping(self) -> dict[str, Any]:
        """The proposed mapping."""
        assert self.proposal.mapping is not None, self.proposal.reason
        return document(self.proposal.mapping)

    @property
    def meta(self) -> dict[str, Any]:
        """Its meta section."""
        meta: dict[str, Any] = self.mapping.get("meta", {})
        return meta

    def turns(self, number: int = 0) -> list[tuple[str, str]]:
        """Roles and contents of one record."""
        return [(m["role"], m["content"]) for m in self.records[number]["messages"]]

    def text(self, number: int = 0) -> str:
        """The text of one record."""
        text: str = self.records[number]["text"]
        return text


Mapped = Callable[..., Outcome]


@pytest.fixture
def pool() -> Pool:
    """The texts."""
    return Pool()


@pytest.fixture
def mapped(tmp_path: Path) -> Mapped:
    """Rows (a list = JSONL, an object = one JSON file, a text = that file) to their outcome."""

    def run(
        rows: Sequence[Any] | dict[str, Any] | str, mode: str, name: str = "data", **asked: Any
    ) -> Outcome:
        folder = tmp_path / "raw"
        folder.mkdir(exist_ok=True)
        if isinstance(rows, str):
            (folder / name).write_text(rows, encoding="utf-8")
        elif isinstance(rows, dict):
            (folder / f"{name}.json").write_text(
                json.dumps(rows, ensure_ascii=False), encoding="utf-8"
            )
        else:
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        source = open_source(str(folder))
        proposal = propose(source, draw_sample(source), Request(mode=mode, **asked))
        return Outcome(proposal=proposal, records=_records(str(folder), proposal))

    return run


def _records(location: str, proposal: Proposal) -> list[dict[str, Any]]:
    if proposal.mapping is None:
        return []
    source = open_source(location, proposal.mapping.source)
    sample = draw_sample(source, rows=10_000)
    assert sample.complete
    mapping = bind_tree(proposal.mapping, [row.value for row in sample.rows])
    unifier = RowExecutor(mapping, source_name="made-up")
    return [r for batch in sample_batches(sample, mapping) for r in unifier.batch(batch).records]
