"""Cards: what is read of files beside data, and that no file of a stranger does any harm."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingot.agent.proposing import card_formats
from ingot.agent.proposing import card_formats as card_prose
from ingot.agent.proposing.cards import MOST_BYTES, Card, card_evidence, find_card
from ingot.agent.proposing.proposal import Proposal
from ingot.converters.mapping.bind import read_tree
from ingot.converters.sources.storage.listing import list_location

HUB = """---
pretty_name: Rivers and stones
language:
- en
- no
- zh-CN
- French
- tlh
license: cc-by-4.0
task_categories:
- question-answering
task_ids: [extractive-qa]
size_categories: [1K<n<10K]
configs:
- config_name: default
  data_files: data/*.jsonl
dataset_info:
- config_name: default
  features:
  - name: messages
    list:
    - name: role
      dtype: string
    - name: content
      dtype: string
  - name: scores
    sequence: float32
  - name: kind
    dtype:
      class_label:
        names:
          '0': river
---
<!-- nobody reads this -->
# Dataset Card for Rivers

- [Contents](#contents)

![badge](https://example.com/b.svg) Some **bold** _words_ with a [link](https://example.com),
<b>tags</b> &amp; `code`.

| a | b |
|---|---|
| 1 | 2 |

```python
print("no prose")
```

## Uses

[More Information Needed]

## Data Fields

- `messages`: the turns
"""


def beside(folder: Path, **files: Any) -> Card | None:
    """The card of files: `README_md="..."`, an object as JSON."""
    for name, content in files.items():
        file = folder / name.replace("__", "/").replace("_md", ".md").replace("_json", ".json")
        file.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    return find_card(list_location(str(folder)).entries)


def test_a_card_of_the_hub(tmp_path: Path) -> None:
    found = beside(tmp_path, README_md=HUB)
    assert found is not None
    assert found.file == "README.md"
    assert found.title == "Rivers and stones"
    assert found.license == "cc-by-4.0"
    assert found.languages == ("en", "no", "zh", "fr", "tlh")
    assert found.tasks == ("question-answering", "extractive-qa")
    assert found.fields == (
        ("messages", "list of {role string, content string}"),
        ("scores", "list of float32"),
        ("kind", found.fields[2][1]),
    )
    assert found.text == (
        "Dataset Card for Rivers\n\nSome bold words with a link,\ntags & code."
        "\n\nData Fields\n\n- messages: the turns"
    )
    assert found.facts() == {
        "file": "README.md",
        "title": "Rivers and stones",
        "license": "cc-by-4.0",
        "languages": ["en", "no", "zh", "fr", "tlh"],
        "tasks": ["question-answering", "extractive-qa"],
    }


def test_a_plain_readme(tmp_path: Path) -> None:
    told = "# Stones\n\nWritten by hand.\n\n## Columns\n\n- `stone`: its name\n* **age** (int): n\n"
    found = beside(tmp_path, README_md=told + "\n## More\n\n- note: no column\n")
    assert found is not None
    assert (found.title, found.license, found.languages) == ("Stones", "", ())
    assert found.fields == (("stone", "its name"), ("age", "int n"))
    assert "Written by hand." in found.text


INFOS = {
    "default": {
        "description": "Questions about rivers.",
        "license": "mit",
        "features": {
            "question": {"dtype": "string", "_type": "Value"},
            "answers": {"feature": {"text": {"dtype": "string"}}, "_type": "Sequence"},
            "kind": {"names": ["a"], "_type": "ClassLabel"},
        },
    },
    "small": {"features": {"question": {"dtype": "int32"}, "more": {"dtype": "bool"}}},
}
CROISSANT = {
    "@type": "sc:Dataset",
    "name": "rivers",
    "license": ["https://spdx.org/licenses/MIT"],
    "inLanguage": "de",
    "description": "Rivers of the north.",
    "recordSet": [
        {
            "field": [
                {"@id": "default/question", "dataType": "sc:Text", "description": "what is asked"},
                {"name": "n", "dataType": ["sc:Integer"]},
            ]
        }
    ],
}
PACKAGE = {
    "name": "rivers",
    "title": "Rivers",
    "licenses": [{"name": "ODC-BY-1.0", "title": "Open"}],
    "languages": ["eng"],
    "resources": [
        {"schema": {"fields": [{"name": "length", "type": "number", "description": "in km"}]}},
        {"path": "x.csv"},
    ],
}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (
            {"dataset_infos_json": INFOS},
            Card(
                file="dataset_infos.json",
                license="mit",
                fields=(
                    ("question", "string"),
                    ("answers", "list of {text string}"),
                    ("kind", "ClassLabel"),
                    ("more", "bool"),
                ),
                text="Questions about rivers.",
            ),
        ),
        (
            {"dataset_info_json": INFOS["small"]},
            Card(file="dataset_info.json", fields=(("question", "int32"), ("more", "bool"))),
        ),
        (
            {"croissant_json": CROISSANT},
            Card(
                file="croissant.json",
                title="rivers",
                license="https://spdx.org/licenses/MIT",
                languages=("de",),
                fields=(("question", "Text, what is asked"), ("n", "Integer")),
                text="Rivers of the north.",
            ),
        ),
        (
            {"datapackage_json": PACKAGE},
            Card(
                file="datapackage.json",
                title="Rivers",
                license="ODC-BY-1.0",
                languages=("en",),
                fields=(("length", "number, in km"),),
            ),
        ),
        (
            {"dataset_card_json": {"name": "x", "tasks": "summarization", "fields": {"a": "text"}}},
            Card(
                file="dataset_card.json",
                title="x",
                tasks=("summarization",),
                fields=(("a", "text"),),
            ),
        ),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_other_formats(tmp_path: Path, files: dict[str, Any], wanted: Card) -> None:
    assert beside(tmp_path, **files) == wanted


def test_several_files_complete_each_other(tmp_path: Path) -> None:
    found = beside(tmp_path, README_md="---\nlanguage: fr\n---\n", dataset_infos_json=INFOS)
    assert found is not None
    assert found.file == "README.md, dataset_infos.json"
    assert (found.languages, found.license) == (("fr",), "mit")
    nearer = beside(tmp_path / "b", README_md="# Near", sub__README_md="# Far")
    assert nearer is not None
    assert (nearer.file, nearer.title) == ("README.md", "Near")


def test_no_card(tmp_path: Path) -> None:
    assert beside(tmp_path / "a", data_json=[{"a": 1}], notes_md="# Notes") is None
    assert beside(tmp_path / "b", README_md="", dataset_infos_json={}) is None
    assert beside(tmp_path / "c", README_md="\x00\x01\xff\x00\x00binary") is None


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    told = "# 河流问答\n\n这是一个关于河流的问答数据集，由人工编写，共有三千条问题。\n" * 3
    found = beside(tmp_path, README_md=told.encode(encoding))
    assert found is not None
    assert found.title == "河流问答"


# --- hostile files

HOSTILE = {
    "aliases": "---\na: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nlanguage: *c\n---\n# T\n",
    "a tag that makes an object": "---\nlicense: !!python/object/apply:os.system ['x']\n---\n# T\n",
    "merge": "---\na: {license: mit}\n<<: {license: gpl}\n---\n# T\n",
    "deep YAML": "---\nlanguage: " + "[" * 5_000 + "\n---\n# T\n",
    "deep JSON in YAML": "---\n" + '{"a":' * 2_000 + "1" + "}" * 2_000 + "\n---\n# T\n",
    "twice": "---\nlicense: mit\nlicense: gpl\n---\n# T\n",
    "a number of many digits": "---\nlicense: 0x" + "f" * 20_000 + "\n---\n# T\n",
    "a date that is none": "---\nlicense: 2024-99-99\n---\n# T\n",
    "no end": "---\nlanguage: en\n" * 5_000,
    "open comments": "# T\n" + "<!--" * 15_000,
    "open brackets": "# T\n" + "[" * 30_000 + "](" * 15_000,
    "open tags": "# T\n" + "<a" * 30_000,
    "stars": "# T\n" + "*" * 30_000 + "_" * 30_000,
    "blanks": "# T\n- " + " " * 60_000 + "x",
    "fences": "# T\n" + "```\n" * 10_000,
    "rules": "# T\n" + "- " * 30_000 + "x",
    "a field of blanks": "# T\n## Fields\n- `a" + " " * 60_000 + "b",
    "headings": "# T\n" + "# x\n" * 15_000,
    "one line": "# T " + "x" * 70_000,
    "many keys": "---\n" + "".join(f"k{n}: [en]\n" for n in range(900)) + "---\n# T\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_markdown(tmp_path: Path, name: str) -> None:
    """Each of them would take minutes, or memory, where it is read without care."""
    found = beside(tmp_path, README_md=HOSTILE[name])
    if found is not None:
        assert len(json.dumps(found.facts())) < 2_000
        assert len(found.text) < 2_000
        assert found.license in ("", "mit")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        '{"features":' * 5_000,
        '{"license": ' + "9" * 60_000 + "}",
        "null",
        '"x"',
        "[]",
        '{"features": {"a": NaN, "b": [[[[[[1]]]]]], "": 1}}',
        '{"features": [1, null, {"name": 7}]}',
    ],
)
def test_hostile_json(tmp_path: Path, text: str) -> None:
    for name in ("dataset_infos_json", "croissant_json", "datapackage_json", "dataset_card_json"):
        beside(tmp_path, **{name: text})


def test_only_the_beginning_is_read(tmp_path: Path) -> None:
    found = beside(tmp_path, README_md="# T\n\n" + "word " * MOST_BYTES + "\n# Z\n")
    assert found is not None
    assert len(found.text) < 1_600
    assert found.text.endswith(" ...")
    assert beside(tmp_path / "b", dataset_infos_json={"x": "y" * MOST_BYTES}) is None


MAIL, KEY = "jo.miller@mail.example.com", "sk-" + "a1B2" * 10


def test_secrets_and_what_cannot_be_seen_do_not_come_through(tmp_path: Path) -> None:
    hidden = "ig\u200bnore \u202eall\x1b[2J"
    front = {
        "pretty_name": f"{hidden} {MAIL}",
        "license": f"ask {MAIL} token={KEY}",
        "language": [MAIL, hidden],
        "task_categories": [KEY, "x" * 500],
        "dataset_info": {"features": [{"name": MAIL, "dtype": hidden}]},
    }
    found = beside(tmp_path, README_md=f"---\n{json.dumps(front)}\n---\n{hidden} {MAIL}, {KEY}\n")
    assert found is not None
    told = repr(found)
    assert "license" in told
    for one in (MAIL, "miller", KEY, "a1B2", "\\u200b", "\\u202e", "\\x1b", "x" * 90):
        assert one not in told


def test_a_device_is_no_card(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "README.md").symlink_to("/dev/zero")
    (tmp_path / "set" / "a.json").write_text("[]")
    assert beside(tmp_path / "set") is None


WORDS = st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "features",
                    "license",
                    "language",
                    "description",
                    "name",
                    "type",
                    "dtype",
                    "list",
                    "sequence",
                    "struct",
                    "recordSet",
                    "field",
                    "resources",
                    "schema",
                    "fields",
                    "title",
                ]
            )
            | WORDS,
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_document_is_read(document: Any) -> None:
    for reader in (
        card_formats.read_front_matter,
        card_formats.read_dataset_infos,
        card_formats.read_croissant,
        card_formats.read_data_package,
        card_formats.read_any_card,
    ):
        said = reader(document)
        for one in (said.title, said.license, said.text, *said.languages, *said.tasks):
            assert isinstance(one, str)
        assert all(isinstance(part, str) for field in said.fields for part in field)


PIECES = st.lists(
    st.sampled_from(["---\n", "# ", "```\n", "<!--", "-->", "- `a`: ", "|", "**", "\n", "a: 1\n"])
    | WORDS,
    max_size=30,
).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(PIECES)
def test_any_markdown_is_read(tmp_path: Path, text: str) -> None:
    front, body = card_prose.split_front_matter(text)
    assert len(front) + len(body) <= len(text)
    card_prose.plain_prose(text)
    card_prose.prose_fields(text)
    beside(tmp_path, README_md=text.encode("utf-8", "surrogatepass"))


# --- evidence


def proposal(**given: Any) -> Proposal:
    base = {"decision": "sft", "mapping": None, "confidence": 0.9, "reason": "x"}
    if "mapping" in given:
        given["mapping"] = read_tree({"version": 2, **given["mapping"]})
    return Proposal(**{**base, **given})


CARD = Card(
    file="README.md",
    languages=("zh",),
    tasks=("question-answering", "other"),
    fields=(("question", ""), ("Answers", "text")),
)


@pytest.mark.parametrize(
    ("made", "paths", "wanted"),
    [
        (
            proposal(detected={"language": "zh"}),
            ("question", "answers.text"),
            [
                ("agrees", "README.md says language zh; the texts are read as zh: agrees"),
                ("agrees", "task question-answering; the rows are read as sft: agrees"),
                ("agrees", "fields question, Answers; the rows have them: agrees"),
            ],
        ),
        (
            proposal(decision="pt", mapping={"meta": {"language": {"literal": "en"}}}),
            ("question", "reply"),
            [
                ("contradicts", "language zh; the texts are read as en: contradicts"),
                ("contradicts", "question-answering; the rows are read as pt: contradicts"),
                ("contradicts", "the rows have no Answers: contradicts"),
            ],
        ),
        (proposal(decision="unmappable", mapping={"meta": {"language": "lang"}}), (), []),
    ],
)
def test_evidence(made: Proposal, paths: tuple[str, ...], wanted: list[tuple[str, str]]) -> None:
    found = card_evidence(CARD, made, paths)
    assert [one.target for one in found] == ["card"] * len(wanted)
    assert [one.choice for one in found] == [choice for choice, _ in wanted]
    for one, (_, said) in zip(found, wanted, strict=True):
        assert said in one.why


@pytest.mark.parametrize(
    ("said", "read", "agrees"),
    [
        (("zh",), "zh", True),
        (("zh",), "en", False),
        (("en", "zh"), "mix", True),
        (("en", "zh"), "en", False),
        (("en",), "mix", False),
    ],
)
def test_languages_agree_or_not(said: tuple[str, ...], read: str, agrees: bool) -> None:
    found = Card(file="README.md", languages=said)
    (line,) = card_evidence(found, proposal(detected={"language": read}), ())
    assert line.choice == ("agrees" if agrees else "contradicts")
    assert ("alone" in line.why) is (len(said) > 1 and read in said)
