"""Files as they come: other encodings, other extensions, files that are no data beside them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.proposal import Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.converters.mapping.bind import bind_tree
from ingot.converters.mapping.check import check_mapping
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import SourceSpec
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document

ZH = (
    "请问怎样才能学会游泳？",
    "先学会在水里呼吸，再练习蹬腿，最后把动作连起来，每天练半个小时就行。",
    "晚上睡不着应该怎么办？",
    "睡前一小时不要看手机，房间里保持安静和黑暗，慢慢地就能睡着了。",
    "为什么天空看起来是蓝色的？",
    "因为空气分子把阳光里波长较短的蓝光散射到各个方向，我们看到的就是蓝色。",
)
JA = (
    "日本で一番高い山は何ですか？",
    "日本で一番高い山は富士山です。高さは三千七百七十六メートルあります。",
    "お茶はどうやって入れますか？",
    "湯を少し冷ましてから急須に注ぎ、一分ほど待って湯のみに入れます。",
    "電車の切符はどこで買えますか？",
    "駅の改札の前にある券売機で買えます。分からなければ駅員に聞いてください。",
)
FR = (
    "Comment préparer une pâte à crêpes légère ?",
    "Mélangez la farine, les œufs et le lait, puis laissez reposer la pâte une heure au frais.",
    "Où trouver des champignons en été ?",
    "Dans les forêts de hêtres, après la pluie ; ne mangez jamais ceux que vous ne connaissez pas.",
    "Pourquoi les feuilles tombent-elles ?",
    "Parce que l'arbre économise l'eau en hiver ; la sève ne monte plus et la feuille se détache.",
)


def table(texts: tuple[str, ...], sep: str = "\t") -> str:
    pairs = list(zip(texts[::2], texts[1::2], strict=True)) * 6
    return f"no{sep}q{sep}a\n" + "".join(f"{n}{sep}{q}{sep}{a}\n" for n, (q, a) in enumerate(pairs))


def turns(folder: Path) -> tuple[Any, list[tuple[str, str]]]:
    """The proposal for a folder and the first question and answer that it gives."""
    source = open_source(str(folder))
    proposal = propose(source, draw_sample(source), Request(mode="sft"))
    assert proposal.mapping is not None, proposal.reason
    opened = source.with_spec(source.guessed.with_facts(proposal.mapping.source))
    sample = draw_sample(opened)
    report = check_mapping(
        bind_tree(proposal.mapping, [r.value for r in sample.rows]), sample, source_name="x"
    )
    return proposal, [
        tuple(m["content"] for m in record["messages"]) for _, record in report.examples
    ]


@pytest.mark.parametrize(
    ("texts", "encoding", "language"),
    [
        (ZH, "utf-8-sig", "zh"),
        (ZH, "gb18030", "zh"),
        (ZH, "gbk", "zh"),
        (ZH, "utf-16", "zh"),
        (JA, "shift_jis", "ja"),
        (JA, "euc_jp", "ja"),
        (FR, "cp1252", "fr"),
        (FR[2:4] * 3, "latin-1", "fr"),
        (FR, "utf-16-le", "fr"),
    ],
)
@pytest.mark.parametrize("name", ["data.tsv", "data.txt", "train.json", "noextension"])
def test_encodings_under_any_name(
    tmp_path: Path, texts: tuple[str, ...], encoding: str, language: str, name: str
) -> None:
    (tmp_path / name).write_bytes(table(texts).encode(encoding))
    proposal, said = turns(tmp_path)
    assert said[0] == texts[:2]
    assert proposal.detected == {"language": language}


@pytest.mark.parametrize("name", ["rows.csv", "rows.txt", "rows.json", "rows", "rows.jsonl.gz"])
def test_lines_of_json_under_any_name(tmp_path: Path, name: str) -> None:
    pairs = list(zip(FR[::2], FR[1::2], strict=True)) * 4
    data = "".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in pairs).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert turns(tmp_path)[1][0] == FR[:2]


@pytest.mark.parametrize("sep", [",", ";", "|", "\t", " ||| ", "_!_"])
def test_delimiters(tmp_path: Path, sep: str) -> None:
    (tmp_path / "rows.txt").write_text(
        table(tuple(t.replace(",", " -").replace(";", ".") for t in FR), sep)
    )
    assert turns(tmp_path)[1][0][0] == FR[0]


def test_what_is_no_data_is_left_out(tmp_path: Path) -> None:
    pairs = list(zip(FR[::2], FR[1::2], strict=True)) * 8
    rows = [{"question": q, "answer": a} for q, a in pairs]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.json").write_text(json.dumps(rows))
    (tmp_path / "README.md").write_text(
        "# A set\n\nquestion: what is asked. answer: nothing.\n" * 9
    )
    (tmp_path / "LICENSE").write_text("Permission is hereby granted to everybody.\n" * 20)
    (tmp_path / "dataset_infos.json").write_text('{"default": {"features": {"question": "str"}}}')
    (tmp_path / "vocab.txt").write_text("".join(f"{w}\n" for w in " ".join(FR).split()))
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    source = open_source(str(tmp_path))
    assert {file.name for file in source.files} == {"train.json", "dev.json"}
    assert len(source.left_out) == 5
    assert turns(tmp_path)[1][0] == FR[:2]


@pytest.mark.parametrize("files", [1, 2, 5])
@pytest.mark.parametrize("form", ["under a key", "keyed by id"])
def test_files_that_hold_a_table_each_are_read_by_their_rows(
    tmp_path: Path, files: int, form: str
) -> None:
    pairs = list(zip(FR[::2], FR[1::2], strict=True)) * 6
    for number in range(files):
        rows = [
            {"question": f"{question} ({number}.{n})", "answer": answer}
            for n, (question, answer) in enumerate(pairs)
        ]
        keyed = {f"q{number}{n:03}": row for n, row in enumerate(rows)}
        document = {"data": rows} if form == "under a key" else keyed
        (tmp_path / f"part{number}.json").write_text(json.dumps(document))
    proposal, examples = turns(tmp_path)
    assert proposal.mapping is not None
    assert proposal.mapping.source.root == ("data[*]" if form == "under a key" else "*")
    assert examples[0][0].startswith(FR[0])
    assert all(len(one) == 2 for one in examples)


def test_files_that_hold_a_conversation_each_are_read_as_one(tmp_path: Path) -> None:
    for number in range(5):
        messages = [
            {"role": "user" if n % 2 == 0 else "assistant", "content": f"{text} ({number}.{n})"}
            for n, text in enumerate(FR * 2)
        ]
        document = {"id": f"c{number}", "messages": messages}
        (tmp_path / f"talk{number}.json").write_text(json.dumps(document))
    proposal, examples = turns(tmp_path)
    assert proposal.mapping.source == SourceSpec()
    assert all(len(one) == 12 for one in examples)


def test_drafts_are_left_out_by_the_front_matter_of_documents(tmp_path: Path) -> None:
    for n in range(12):
        told = {0: "draft: true\n", 1: "draft: false\n"}.get(n % 4, "")
        head = f"---\ntitle: Page {n}\n{told}---\n"
        (tmp_path / f"p{n}.md").write_text(f"{head}# Page {n}\n\nWhat page {n} says of it.\n")
    source = open_source(str(tmp_path))
    proposal = propose(source, draw_sample(source), Request(mode="pt"))
    assert proposal.mapping
    assert document(proposal.mapping)["where"] == [{"path": "front_matter.draft", "not_in": [True]}]


@pytest.mark.parametrize(
    ("name", "values", "kept"),
    [
        ("Published", ("yes", "no"), "yes"),
        ("draft", ("Y", "N"), "N"),
        ("veröffentlicht", ("ja", "nein"), "ja"),
    ],
)
def test_questions_that_are_not_published_are_left_out(
    tmp_path: Path, name: str, values: tuple[str, str], kept: str
) -> None:
    rows = [
        {
            "question": FR[0].replace("crêpes", f"crêpes {n}"),
            "answer": f"{FR[1]} {n}",
            name: values[n % 2],
        }
        for n in range(30)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(tmp_path))
    proposal = propose(source, draw_sample(source), Request(mode="sft"))
    assert proposal.mapping
    (gone,) = set(values) - {kept}
    assert document(proposal.mapping)["where"] == [{"path": name, "not_in": [gone]}]
