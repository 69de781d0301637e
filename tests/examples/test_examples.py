"""The example data sets through the whole job: decision, counts, one record each, and the demo."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOKENIZER = EXAMPLES / "tokenizer" / "tokenizer.json"
NO_META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)
# read, converted, rejected and filtered rows, then the rejects by reason
COUNTS: dict[str, tuple[str, tuple[int, int, int, int], dict[str, int]]] = {
    "en_chats": ("sft", (25, 24, 1, 0), {"no_assistant": 1}),
    "en_field_notes": ("pt", (22, 22, 0, 0), {}),
    "en_handbook": ("pt", (8, 8, 0, 0), {}),
    "en_instructions": ("sft", (62, 60, 2, 0), {"bad_row": 1, "no_assistant": 1}),
    "en_workshop": ("sft", (14, 14, 0, 0), {}),
    "sensor_log": ("irrelevant", (0, 0, 0, 0), {}),
    "zh_exam": ("sft", (42, 41, 1, 0), {"no_assistant": 1}),
    "zh_townlife": ("pt", (45, 41, 1, 3), {"empty_text": 1}),
}


def chat(source: str, language: str, original_id: str | None, *turns: str) -> dict[str, object]:
    """An SFT record of turns that begin with the user."""
    roles = ("user", "assistant") * len(turns)
    messages = [
        {"role": role, "content": content, "loss_mask": role == "assistant"}
        for role, content in zip(roles, turns, strict=False)
    ]
    meta = NO_META | {"source": source, "language": language, "original_id": original_id}
    return {"messages": messages, "system": None, "meta": meta}


# (data set, number of the record, the record)
WHOLE_RECORDS = [
    (
        "zh_townlife",
        0,
        {
            "text": "茶泡饭\n入夏以后，外婆总在灶台边留一只粗瓷碗。冷饭盛到八分，浇上隔夜的浓茶，"
            "再夹两片腌萝卜，就是一顿午饭。茶水把饭粒冲散，吃到最后碗底有一点苦，她说这点苦最解暑。",
            "meta": NO_META
            | {
                "source": "zh_townlife",
                "language": "zh",
                "timestamp": "2019/03/14 09:17",
                "original_id": "XC-2019-0001",
            },
        },
    ),
    (
        "en_field_notes",
        11,
        {
            "text": "The spare key hangs behind the fuse box. If it is not there, Petra has it; if "
            "Petra does not have it, it is in the coat that somebody left in April. Do not make "
            "another copy, since there are nine already and that is the difficulty.",
            "meta": NO_META
            | {
                "source": "en_field_notes",
                "language": "en",
                "timestamp": "2019-09-05",
                "original_id": "fn-1444-012",
            },
        },
    ),
    (
        "en_instructions",
        5,
        chat(
            "en_instructions",
            "en",
            None,
            "Classify each animal as a mammal, a bird or a reptile.\nbat, gecko, penguin, dolphin",
            "Bat: mammal\nGecko: reptile\nPenguin: bird\nDolphin: mammal",
        ),
    ),
    (
        "en_chats",
        12,
        chat(
            "en_chats",
            "en",
            "95404c8_0",
            "Who painted The Night Watch?",
            "Rembrandt van Rijn, in 1642. It hangs in the Rijksmuseum in Amsterdam.",
        ),
    ),
    (
        "zh_exam",
        1,
        chat(
            "zh_exam",
            "zh",
            "wl2024026",
            "声音在下列哪种介质中传播得最快？\nA. 空气\nB. 海水\nC. 钢铁\nD. 真空",
            "一般情况下，声音在固体中最快，液体次之，气体最慢；真空不能传声。\nC",
        ),
    ),
]


def script(name: str) -> ModuleType:
    """A script of examples/, imported by its path."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_tokenizer_is_what_training_gives(tmp_path):
    script("train_tokenizer").main(tmp_path / "fresh.json")
    assert (tmp_path / "fresh.json").read_bytes() == TOKENIZER.read_bytes()


@pytest.mark.parametrize(
    "text", ["枇杷树上有两只斑鸠。", " don't\t\n\n  stop", "𝄞 é e\u0301 ﷽", "<|im_start|>user\n\n"]
)
def test_every_text_survives_the_tokenizer(text):
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_are_whole_and_first():
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    ids = tokenizer.encode("<|endoftext|><|im_start|><|im_end|>").ids
    assert ids == [0, 1, 2]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    return script("run_demo")


def test_there_is_an_expectation_for_every_example(demo):
    assert demo.example_names() == sorted(COUNTS)


@pytest.mark.more
@pytest.mark.parametrize("name", COUNTS)
def test_an_example_through_the_whole_job(demo, name, tmp_path):
    done = demo.run(name, str(tmp_path / name))
    assert done.exit_code == 0, done.said
    manifest = json.loads((tmp_path / name / "manifest.json").read_text(encoding="utf-8"))
    decision, rows, rejects = COUNTS[name]
    assert manifest["decision"] == decision
    assert manifest["rows"] == dict(
        zip(("read", "converted", "rejected", "filtered"), rows, strict=True)
    )
    assert manifest["rejects"] == rejects
    records = list(stored_records(tmp_path / name))
    assert len(records) == manifest["records"]["written"] == rows[1]
    for _, number, expected in (one for one in WHOLE_RECORDS if one[0] == name):
        assert records[number] == expected
    if decision == "pt":
        assert first_document(tmp_path / name / "tokens" / f"{name}.bin") == records[0]["text"]


def stored_records(out: Path) -> Iterator[dict[str, object]]:
    """The records of a result; a null `tools`, which no example has, is left out."""
    for part in sorted((out / "records").glob("*.parquet")):
        for record in pq.read_table(part).to_pylist():
            assert record.pop("tools", None) is None
            yield record


def first_document(tokens: Path) -> str:
    """The text before the first end-of-document token, which is token 0."""
    ids = np.fromfile(tokens, dtype="<u2").tolist()
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    return tokenizer.decode(ids[: ids.index(0)], skip_special_tokens=False)


@pytest.mark.more
def test_the_demo_prints_one_table_that_fits_80_columns(tmp_path):
    argv = [sys.executable, EXAMPLES / "run_demo.py", "--out", tmp_path, "sensor_log"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=True)
    commands, *lines = done.stdout.splitlines()
    assert commands.startswith("$ ingot run examples/sensor_log --out ")
    assert "irrelevant" in lines[-2]
    assert max(map(len, lines)) <= 80


@pytest.mark.more
def test_the_demo_fails_where_a_run_fails(tmp_path):
    (tmp_path / "taken").write_text("not a folder")
    argv = [sys.executable, EXAMPLES / "run_demo.py", "--out", tmp_path / "taken", "sensor_log"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert "failed: 1" in done.stdout


@pytest.mark.more
def test_parquet_to_tokens_looked_into_checked_and_resumed(tmp_path):
    argv = [sys.executable, EXAMPLES / "parquet2mbt/run.py", "--out", tmp_path / "out"]
    done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "tokenized again  67 documents of 2 files" in done.stdout
    assert "The lamp that burned backwards" in done.stdout
    assert done.stderr.endswith("nothing to do\n")
