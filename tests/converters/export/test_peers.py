"""Exports read by the trainers themselves: examples, texts and trained tokens are the records'.

Each trainer runs in an environment of its own, `$INGOT_PEERS/NAME`, made where it is not there yet
(`make test-peers`): some gigabytes each. Nothing is asked of a network but the packages.
"""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from ingot.converters.export.chat_layout import Turn, chat_of_record
from ingot.converters.export.job import ExportOptions, export
from ingot.converters.export.trainers import TRAINERS, survey_records
from ingot.converters.megatron.chat.templates import render_chat
from ingot.converters.records.readers import read_records
from tests.converters.export.test_docs import joined

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent / "peers"
TORCH = "torch==2.13.0"
MARKED = "{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}"
CHATML = (
    "{% if tools %}{{ '<|im_start|>system\n# Tools\n' + tools | tojson + '<|im_end|>\n' }}"
    "{% endif %}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
    "{% if m['role'] == 'assistant' %}" + MARKED + "{% else %}{{ m['content'] + '<|im_end|>' }}"
    "{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TOOLS = json.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "weather_of",
                "description": "Says the weather.",
                "parameters": {
                    "type": "object",
                    "properties": {"place": {"type": "string", "description": "A town."}},
                    "required": ["place"],
                },
            },
        }
    ]
)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """What pip installs: with what it needs, and without (parts of it that data does not touch)."""

    full: tuple[str, ...]
    alone: tuple[str, ...] = ()


PEERS = {
    "llamafactory": Peer(
        full=(
            *(TORCH, "transformers==4.57.3", "datasets==4.0.0", "accelerate==1.11.0"),
            *("peft==0.18.0", "trl==0.24.0", "av==16.0.0", "pillow", "numpy", "pandas"),
            *("omegaconf", "pydantic", "pyyaml", "safetensors", "scipy", "sentencepiece"),
            *("tiktoken", "protobuf", "fire", "einops", "matplotlib", "hf-transfer", "packaging"),
        ),
        alone=("llamafactory==0.9.5",),
    ),
    "swift": Peer(
        full=(
            *(TORCH, "transformers==5.19.0", "datasets==4.8.4", "modelscope", "accelerate"),
            *("peft", "trl<1.0", "json-repair", "pillow", "numpy", "pandas", "matplotlib"),
            *("nltk", "rouge", "sentencepiece", "tiktoken", "simplejson", "sortedcontainers"),
            *("addict", "attrdict", "binpacking", "dacite", "einops", "openai", "aiohttp"),
            *("fastapi", "uvicorn", "oss2", "requests", "scipy", "tqdm", "zstandard", "pyyaml"),
        ),
        alone=("ms-swift==4.6.0",),
    ),
    "axolotl": Peer(
        full=(
            *(TORCH, "transformers==5.16.1", "datasets==4.8.4", "accelerate==1.13.0"),
            *("peft==0.20.0", "tokenizers==0.23.1", "huggingface-hub==1.17.0", "trl==1.9.0"),
            *("pydantic", "addict", "fire", "pyyaml", "requests", "numpy", "numba", "einops"),
            *("colorama", "scipy", "sentencepiece", "python-dotenv", "pillow"),
            *("mistral-common", "packaging"),
        ),
        alone=(
            *("axolotl==0.19.0", "axolotl-contribs-lgpl", "axolotl-contribs-mit"),
            *("posthog", "backoff", "distro"),
        ),
    ),
    "trl": Peer(full=(TORCH, "trl==1.16.0")),
    "torchtune": Peer(full=(TORCH, "torchtune==0.6.1"), alone=("torchao==0.10.0",)),
}


def test_every_trainer_is_run_in_the_version_that_its_exporter_follows():
    asked = {name: [*peer.full, *peer.alone] for name, peer in PEERS.items()}
    packages = {**{name: name for name in TRAINERS}, "swift": "ms-swift"}
    for name, trainer in TRAINERS.items():
        assert f"{packages[name]}=={trainer.version}" in asked[name]


@pytest.fixture(params=TRAINERS)
def trainer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(trainer: str) -> Path:
    """The Python of the trainer's environment, made where it is not there."""
    if not os.environ.get("INGOT_PEERS"):
        pytest.skip("INGOT_PEERS names no folder for the trainers' environments")
    folder = Path(os.environ["INGOT_PEERS"]) / trainer
    made = folder / "bin" / "python"
    if (folder / "ready").exists():
        return made
    peer = PEERS[trainer]
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        install = [str(made), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        _run([*install, *peer.full])
        if peer.alone:
            _run([*install, "--no-deps", *peer.alone])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{trainer} cannot be installed: {error.stderr[-500:]}")
    (folder / "ready").touch()
    return made


def _run(command: Sequence[str], **more: Any) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, **more)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example tokenizer with a chat template, in every form that the trainers load."""
    folder = tmp_path_factory.mktemp("tokenizer")
    file = shutil.copy(ROOT / "examples" / "tokenizer" / "tokenizer.json", folder)
    model = json.loads(Path(file).read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("".join(f"{pair}\n" for pair in pairs))
    settings = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "model_max_length": 4096}
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, **settings}))
    sizes = dict.fromkeys(("hidden_size", "intermediate_size"), 8)
    heads = dict.fromkeys(("num_attention_heads", "num_key_value_heads", "num_hidden_layers"), 1)
    kind = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "dtype": "float32"}
    size = {"vocab_size": len(model["vocab"]), "max_position_embeddings": 4096}
    (folder / "config.json").write_text(json.dumps({**kind, **size, **sizes, **heads}))
    return folder


@dataclass(frozen=True, kw_only=True)
class Example:
    """What a trainer makes of a row: the whole text, and the runs of it that are trained on."""

    text: str
    trained: list[str]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Runs a trainer on an export."""

    trainer: str
    python: Path
    tokens: Path

    def read(self, out: Path) -> list[Example]:
        answer = self.run("peer", out.with_name(f"{out.name}.json"), out, self.tokens)
        decoder = Tokenizer.from_file(str(self.tokens / "tokenizer.json"))
        return [_example(decoder, row) for row in answer]

    def parse(self, line: str, folder: Path) -> Any:
        """What the trainer's parser makes of a printed line in a folder."""
        return self.run("use", folder / "use.json", *shlex.split(line), cwd=folder)

    def run(self, script: str, answer: Path, *words: object, cwd: Path | None = None) -> Any:
        home = str(answer.with_name("home"))
        offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
        caches = dict.fromkeys(("HF_HOME", "MODELSCOPE_CACHE"), home)
        more = {"PYTHONDONTWRITEBYTECODE": "1", "TOKENIZERS_PARALLELISM": "false"}
        file = HERE / f"{self.trainer}_{script}.py"
        order = [*words, answer] if script == "peer" else [answer, *words]
        ran = subprocess.run(
            [str(word) for word in (self.python, file, *order)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, **offline, **caches, **more, "CUDA_VISIBLE_DEVICES": ""},
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
        return json.loads(answer.read_text())


def _example(decoder: Tokenizer, row: dict[str, list[int]]) -> Example:
    runs: list[list[int]] = []
    before = -100
    for token, label in zip(row["ids"], row["labels"], strict=True):
        if label != -100:
            assert label == token
            if before == -100:
                runs.append([])
            runs[-1].append(token)
        before = label
    trained = [decoder.decode(run, skip_special_tokens=False) for run in runs]
    return Example(text=decoder.decode(row["ids"], skip_special_tokens=False), trained=trained)


@pytest.fixture
def reader(trainer: str, python: Path, tokens: Path) -> Reader:
    return Reader(trainer=trainer, python=python, tokens=tokens)


def contents(example: Example) -> list[str]:
    """The trained messages, without what a trainer trains on of the markers around them."""
    joined = ended("".join(one.removesuffix("\n") for one in example.trained))
    assert joined.endswith("<|im_end|>")
    said = joined.removesuffix("<|im_end|>").split("<|im_end|>")
    return [
        re.sub(r"^\n?((<\|im_start\|>)?(user|assistant|system|tool)\n)?", "", one) for one in said
    ]


def ended(text: str) -> str:
    """A text without what stands behind its last message: torchtune puts a second end marker."""
    end = "<|im_end|>"
    text = text.rstrip("\n")
    return text.removesuffix(f"\n{end}") if text.endswith(f"{end}\n{end}") else text


def expected(folder: Path, *, cut: bool) -> Iterator[tuple[str, list[str]]]:
    """The text and the trained contents of each record; `cut` after the last that is trained."""
    for record in read_records(folder / "records"):
        chat = chat_of_record(record)
        end = max(at for at, on in enumerate(chat.trained, start=1) if on)
        turns = chat.turns[: end if cut else None]
        text = render_chat([_message(turn) for turn in turns]).text
        yield text.rstrip("\n"), [turn.content for turn in turns if turn.trained]


def _message(turn: Turn) -> dict[str, Any]:
    return {"role": turn.role, "content": turn.content, "loss_mask": turn.trained}


def read_as_said(reader: Reader, folder: Path, out: Path) -> dict[str, Any]:
    """Export without loss, read it back, compare; gives the manifest."""
    done = export(folder, reader.trainer, out, ExportOptions(part_bytes=1))
    cut = reader.trainer in ("llamafactory", "swift", "trl")
    wanted = list(expected(folder, cut=cut))
    found = reader.read(out)
    assert [ended(example.text) for example in found] == [text for text, _ in wanted]
    assert [contents(example) for example in found] == [trained for _, trained in wanted]
    chars = sum(len(content) for _, trained in wanted for content in trained)
    assert done.manifest["trained_chars"] == {"records": chars, "trainer": chars}
    assert done.manifest["records"]["written"] == len(found)
    return done.manifest


def test_conversations(reader, said, make_result, tmp_path):
    """Every assistant message is trained on; system texts, several turns, odd white space."""
    rows = [
        said("user: What is a river?", "assistant: Water that runs.", system="Be short."),
        said("user: One?", "assistant: 1", "user: Two?", "assistant: 2"),
        said("user: 你好，世界", "assistant:  你好！😀\n  indented \n", system=" 系统 "),
        said("system: Be long.", "user: Why <image> so?", "assistant: Because\n\nit is."),
        said("user: Thanks?", "assistant: Yes.", "user: Bye."),
    ]
    folder = make_result(rows)
    manifest = read_as_said(reader, folder, tmp_path / "out")
    assert manifest["records"]["left_out"] == {}


def test_only_the_last_answer_is_trained_on(reader, said, make_result, tmp_path):
    rows = [
        said("user: One?", "assistant: bad", "user: Two?", "assistant: 2", trained="FFFT"),
        said("user: What?", "assistant: That."),
    ]
    read_as_said(reader, make_result(rows), tmp_path / "out")


def test_answers_in_the_middle_are_not_trained_on(reader, said, make_result, tmp_path):
    """Exactly so, or not at all."""
    rows = [
        said(
            *("user: One?", "assistant: good", "user: Two?", "assistant: bad"),
            *("user: Three?", "assistant: fine"),
            trained="FTFFFT",
        ),
        said("user: One?", "assistant: good", "user: Two?", "assistant: bad", trained="FTFF"),
    ]
    folder = make_result(rows)
    if reader.trainer in ("swift", "axolotl", "torchtune"):
        read_as_said(reader, folder, tmp_path / "out")
        return
    done = export(folder, reader.trainer, tmp_path / "out", ExportOptions(lossy=True))
    assert done.manifest["records"]["changed"] == {"masks": 1, "tail": 1}
    found = reader.read(tmp_path / "out")
    told = done.manifest["trained_chars"]
    assert sum(len("".join(contents(one))) for one in found) == told["trainer"] != told["records"]


def test_tools(reader, said, make_result, tmp_path):
    """The definitions are in the text, the call and the last answer are trained on."""
    call = '{"name": "weather_of", "arguments": {"place": "Ulm"}}'
    rows = [
        said(
            *("user: Rain?", f"assistant: {call}", "tool: wet", "assistant: Yes, rain."),
            tools=TOOLS,
        ),
        said("user: Hi.", "assistant: Hello."),
    ]
    folder = make_result(rows)
    lossy = reader.trainer == "torchtune"  # takes no answer of a tool
    done = export(folder, reader.trainer, tmp_path / "out", ExportOptions(lossy=lossy))
    found = reader.read(tmp_path / "out")
    if lossy:
        assert done.manifest["records"]["left_out"] == {"roles": 1}
        assert [contents(one) for one in found] == [["Hello."]]
        return
    assert [contents(one) for one in found] == [[call, "Yes, rain."], ["Hello."]]
    assert "weather_of" in found[0].text.split("<|im_start|>user")[0]
    assert "weather_of" not in found[1].text
    assert "wet" in found[0].text


def test_many_orders_of_roles_and_masks(reader, said, make_result, tmp_path):
    """Of random conversations all that one export takes without loss: trained as they say."""
    draw = random.Random(7)
    kept: list[dict[str, Any]] = []
    taken: list[dict[str, Any]] = []
    for number in range(2_000):
        roles = draw.choices(
            ("user", "assistant", "system", "tool"), (6, 6, 1, 2), k=draw.randint(2, 6)
        )
        if "assistant" not in roles or not {"user", "tool"} & set(roles):
            continue
        marks = ["T" if draw.random() < 0.5 and role != "tool" else "F" for role in roles]
        turns = [f"{role}: {role[0]}{number}x{place}" for place, role in enumerate(roles)]
        row = said(*turns, trained="".join(marks), system=draw.choice([None, None, "Be short."]))
        tally = survey_records(TRAINERS[reader.trainer], [*taken, _record(row)])[1]
        if "T" in marks and not tally.lost:
            kept, taken = [*kept, row], [*taken, _record(row)]
        if len(kept) == 30:
            break
    folder = make_result(kept)
    done = export(folder, reader.trainer, tmp_path / "out")
    assert done.manifest["records"]["written"] == 30
    found = reader.read(tmp_path / "out")
    assert [contents(one) for one in found] == [
        [turn["content"] for turn in row["said"] if turn["trained"]] for row in kept
    ]


def _record(row: dict[str, Any]) -> dict[str, Any]:
    """The record that a conversion makes of a row: its own system messages count first."""
    said = [{**turn, "loss_mask": turn["trained"]} for turn in row["said"]]
    own = any(turn["role"] == "system" for turn in said)
    return {"messages": said, "system": None if own else row["system"], "tools": None}


def test_with_losses_the_rest_is_read_and_nothing_fails(reader, said, make_result, tmp_path):
    """What the manifest says of a lossy export is what the trainer makes of it."""
    rows = [
        said("assistant: Me first.", "user: Oh.", "assistant: Yes."),
        said("user: One", "user: more", "assistant: Two", "assistant: too"),
        said("system: B", "user: Two systems?", "assistant: Joined.", system="A"),
        said("user: Look", "tool: found", "assistant: Seen."),
        said("user: Say it", "assistant: said", "user: all", "assistant: of it", trained="TTTT"),
        said("user: Nothing", "assistant: here", trained="FF"),
        said("user: Plain", "assistant: text"),
        said("user: What now", "assistant: tools", tools="search the web"),
        said("user: Mid", "system: way", "assistant: now"),
    ]
    folder = make_result(rows)
    done = export(folder, reader.trainer, tmp_path / "out", ExportOptions(lossy=True))
    found = reader.read(tmp_path / "out")
    records = done.manifest["records"]
    assert records["left_out"]["untrained"] == 1
    assert records["written"] == len(found) == records["read"] - sum(records["left_out"].values())
    assert "text" in [contents(one)[-1] for one in found]


def test_texts(reader, make_result, tmp_path):
    """Pretraining texts, with the end marker behind each."""
    rows = [{"text": "A river runs."}, {"text": "  Zwei\n\nTexte 你好 😀 "}]
    folder = make_result(rows, pt=True)
    done = export(folder, reader.trainer, tmp_path / "out")
    assert done.manifest["data"] == ["../result/records/part-00000.parquet"]
    found = reader.read(tmp_path / "out")
    assert [one.text for one in found] == [f"{row['text']}<|im_end|>" for row in rows]
    whole = [replace(one, trained=[one.text]) for one in found]
    if reader.trainer == "swift":  # the first token of an example is no label
        assert [one.text.endswith(one.trained[0]) for one in found] == [True, True]
    else:
        assert found == whole


@pytest.mark.parametrize("trainer", ["llamafactory", "swift"])
@pytest.mark.parametrize("kind", ["pt", "sft"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_printed_line_is_what_the_trainer_takes(
    reader, kind, split, said, make_result, tmp_path, monkeypatch
):
    """The others are started with a config that `read` reads; their lines are no commands."""
    rows = [said("user: One?", "assistant: bad", "user: Two?", "assistant: 2", trained="FFFT")]
    pt = kind == "pt"
    make_result([{"text": "A river runs."}] if pt else rows, name="123", pt=pt)
    monkeypatch.chdir(tmp_path)
    done = export(Path("123"), reader.trainer, Path("true o'"), ExportOptions(split=split))
    line = done.use[0]
    parsed = reader.parse(line, tmp_path)
    info = json.loads(Path(parsed["info"]).read_text())
    known = [one["dataset_name"] for one in info] if isinstance(info, list) else list(info)
    assert parsed["names"] == known
    assert parsed["stage"] == kind
    defaults = {"mask_history": False, "train_on_prompt": False}
    plain = defaults if reader.trainer == "llamafactory" else {}
    assert parsed["settings"] == (plain if pt else done.manifest["way"]["settings"])


@pytest.mark.parametrize("trainer", ["llamafactory"])
def test_two_exports_are_joined_as_the_docs_say(reader, said, make_result, tmp_path):
    chats = make_result([said("user: One?", "assistant: 1")], name="chats")
    held = make_result([said("user: Two?", "assistant: 2", "user: Thanks")], name="held")
    export(chats, reader.trainer, tmp_path / "chats-lf")
    export(held, reader.trainer, tmp_path / "held-lf", ExportOptions(split="test"))
    both = joined(tmp_path)
    named = {"dataset_dir": ".", "dataset": "chats", "eval_dataset": "held_test"}
    (both / "llamafactory.yaml").write_text(json.dumps({"stage": "sft", **named}))
    assert [contents(one) for one in reader.read(both)] == [["1"]]
