"""Canaries: secrets planted all over a data set, looked for in all that a run leaves or sends.

`records/` and `rejected/` are the data itself and hold them; nothing else may, whatever happens.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.agent.privacy import redact
from ingot.cli.app import app
from tests.conftest import SURE, first_quick

# What must not be found -> a text that it stands in.
SECRETS = {
    "canary.bird+x@secret-host.example": "Write to {} today.",
    "+4915123456789": "Call me at {} please.",
    "13800138000": "我的手机号是{}，请联系。",
    "4111111111111111": "The card {} was charged.",
    "11010519491231002X": "身份证号 {} 已登记。",
    "123-45-6788": "The SSN {} belongs to nobody.",
    "203.0.113.77": "It came from {} at night.",
    "2001:db8:85a3::8a2e:370:7334": "It came from {} too.",
    "DE89370400440532013000": "Send it to {} soon.",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ": "The JWT {} is valid.",
    "MIICdCanaryCanaryCanaryCanaryCanaryCanaryCanary0": (
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"
    ),
    "ghp_canaryCANARY0123456789abcdefghijklmn": "git clone with {} now.",
    "AKIACANARY2345678QRS": "The key {} opens the bucket.",
    "sk-canary0123456789abcdefghijklmnopqrstuvCANARY": "Use {} for the model.",
    "canary-pass-99": "See https://robin:{}@host.example/x for it.",
    "canary-word-77": "password={} is set.",
}
# Under a name that makes a secret of any value.
NAMED = {"password": "blackbird", "api_key": "nightingale", "client_secret": "goldfinch"}
NEEDLES = [*SECRETS, *NAMED.values()]
WORDS = ("heliotrope", "vermilion", "quicksilver")  # everyday words that only the values hold


def texts() -> list[str]:
    return [around.format(secret) for secret, around in SECRETS.items()]


def test_every_canary_is_one_that_is_caught() -> None:
    assert [text for text in texts() if redact(text) == text] == []


def rows(count: int = 64) -> list[dict[str, Any]]:
    """Rows whose columns do not say which one asks, with secrets in texts, keys, JSON, numbers."""
    said = texts()
    made: list[dict[str, Any]] = []
    for n in range(count):
        text = said[n % len(said)]
        where = [text if n % 3 == place else f"{WORDS[place]} is number {n}" for place in range(3)]
        made.append(
            {
                "k": f"r{n}",
                "c1": f"{where[0]} One {WORDS[0]} and {n} of them.",
                "c2": f"{where[1]} Another {WORDS[1]} for {n} people who came along by the river.",
                "log": json.dumps({"said": text, "inner": json.dumps({"again": text, **NAMED})}),
                "info": {**NAMED, "note": where[2], "deep": [{"card": 4111111111111111}]},
                "phone": 13800138000,
            }
        )
    return made


def lay(folder: Path) -> Path:
    """The rows, with secrets in keys, a row without an answer, a broken line, a README."""
    folder.mkdir(parents=True)
    odd = [
        {"k": "x2", "c1": texts()[6], "c2": None, "canary.bird+x@secret-host.example": texts()[3]},
    ]
    if folder.name == "odd":
        odd.append({"k": "x1", "c1": {"mail": texts()[0]}, "c2": texts()})
    lines = [json.dumps(row) for row in (*rows(), *odd)]
    broken = '{"k": "x3", "c1": "' + texts()[0]
    (folder / "set.jsonl").write_text("\n".join([*lines, broken]) + "\n")
    (folder / "README.md").write_text("\n".join(texts()))
    return folder


META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)


def reply(asks: str = "c1", answers: str = "c2", **given: Any) -> dict[str, Any]:
    said = [("user", asks), ("assistant", answers)]
    messages = [
        {"each": [], "role": role, "content": [path], "loss_mask": None} for role, path in said
    ]
    made: dict[str, Any] = {
        "decision": "sft",
        "reason": "c2 answers c1.",
        "root": None,
        "each": None,
        "group": None,
        "where": [],
        "text": None,
        "messages": messages,
        "system": None,
        "meta": META,
        "confidence": 0.9,
    }
    return {**made, **given}


DATA = {"set", "odd", "talks", "records", "rejected"}


class Aviary:
    """A folder with the data, a server, commands that run in it, and the look for canaries."""

    def __init__(self, chat: Any, root: Path) -> None:
        self.chat, self.root = chat, root
        self.said: list[str] = []
        lay(root / "set")
        lay(root / "odd")

    def ingot(self, *words: object) -> int:
        ran = CliRunner().invoke(app, [str(word) for word in words])
        self.said += [ran.stdout, ran.stderr]
        assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
        return int(ran.exit_code)

    def asks(self, *words: object) -> int:
        how = ("--model", "m1", "--base-url", self.chat.url)
        return self.ingot(*words, *how)

    def drifted(self, folder: Path) -> None:
        """A mapping that was made for data of another shape."""
        other = folder / "other" / "set"
        other.mkdir(parents=True)
        made = [{"k": row["k"], "c1": row["c1"], "c2": row["c2"], "gone": 1} for row in rows()]
        (other / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
        self.ingot("map", other, "--mode", "sft", "-o", "drifted.json")

    def left(self) -> dict[str, bytes]:
        """Everything that was sent, printed or written, but the data itself."""
        found = {f"output {n}": text.encode() for n, text in enumerate(self.said)}
        sent = [
            one["content"]
            for request in self.chat.requests
            for one in request["messages"]
            if one["role"] != "assistant"  # what the server itself has said
        ]
        found["requests"] = "\n".join(sent).encode()
        for file in self.root.rglob("*"):
            inside = file.relative_to(self.root).parts
            if file.is_file() and not DATA & {*inside}:
                found["/".join(inside)] = file.read_bytes()
        return found

    def escaped(self, needles: list[str]) -> set[tuple[str, str]]:
        return {
            (name, needle)
            for name, content in self.left().items()
            for needle in needles
            if needle.encode() in content
        }


@pytest.fixture
def aviary(chat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aviary:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Aviary(chat, tmp_path)


# What a model may say, honest or not; it has seen no secret.
ANSWERS: dict[str, Any] = {
    "right": reply(),
    "swapped": reply("c2", "c1"),
    "a path that is nowhere": reply("nowhere", "c2"),
    "no text": reply("info", "c2"),
    "JSON in a text": reply("log", "c2"),
    "unsure": reply(confidence=0.4),
    "prose": "I would rather not.",
    "irrelevant": reply(decision="irrelevant", messages=None),
    "unmappable": reply(decision="unmappable", messages=None),
    "most rows left out": reply(where=[{"path": "k", "op": "in", "values": ["r1"]}]),
}
# What a model may say of its own accord: its mapping is shown and kept as it is, its prose is not.
SAID: dict[str, Any] = {
    "a row for an answer": json.dumps(rows(1)[0]),
    "prose": " ".join(texts()),
    "the reason": reply(reason=" ".join(texts())),
    "literals": reply(system=[{"literal": " ".join(texts())}]),
    "paths": reply(texts()[0], texts()[3]),
    "a source": reply(meta={**META, "source": {"literal": texts()[0]}}),
    "an id": reply(meta={**META, "original_id": {"literal": texts()[3]}}),
    "conditions": reply(where=[{"path": "c1", "op": "in", "values": texts()}]),
}


WITHHELD = [(name, "none") for name in ("right", "a path that is nowhere", "no text", "unsure")]


ASKED = [*first_quick((name, "redacted") for name in ANSWERS), *first_quick(WITHHELD)]


@pytest.mark.parametrize(("name", "share"), ASKED)
def test_no_canary_leaves_with_a_model(aviary: Aviary, chat: Any, name: str, share: str) -> None:
    chat.always = ANSWERS[name]
    words = ("run", "set", "--mode", "sft", "--share-values", share, "--mapper", "llm")
    waiting = aviary.asks(*words, "--out", "out")
    ended = aviary.asks(*words, "--out", "out", *SURE)
    assert waiting in (0, 3) if name == "irrelevant" else waiting == 3
    converts = ("right", "swapped", "JSON in a text", "irrelevant")
    assert ended in (0, 3) if name in converts else ended == 3
    assert chat.requests
    assert aviary.escaped(NEEDLES) == set()
    if share == "none":
        assert [word for word in WORDS if word.encode() in aviary.left()["requests"]] == []


@pytest.mark.more
@pytest.mark.parametrize("name", SAID)
def test_what_a_model_makes_up_is_redacted_but_in_its_mapping(
    aviary: Aviary, chat: Any, name: str
) -> None:
    chat.always = SAID[name]
    words = ("run", "set", "--mode", "sft", "--mapper", "llm", *SURE, "--out", "out")
    assert aviary.asks(*words) in (1, 3) or name == "the reason"
    found = aviary.escaped(NEEDLES)
    assert {one for one, _ in found if "mapping.json" not in one and "home/" not in one} == set()


@pytest.mark.more
def test_raw_values_reach_the_server(aviary: Aviary, chat: Any) -> None:
    chat.always = reply()
    words = ("run", "set", "--mode", "sft", "--share-values", "raw", "--mapper", "llm", *SURE)
    aviary.asks(*words, "--out", "out")
    sent = {needle for name, needle in aviary.escaped(NEEDLES) if name == "requests"}
    assert len(sent) > 4
    left = {name for name, _ in aviary.escaped(NEEDLES)} - {"requests"}
    assert left == set()


def mapping(folder: Path, name: str, asks: str = "c1", answers: str = "c2", **more: Any) -> Path:
    said = [{"role": "user", "content": asks}, {"role": "assistant", "content": answers}]
    file = folder / name
    file.write_text(json.dumps({"version": 2, "messages": said, **more}))
    return file


COMMANDS: list[tuple[str, list[str], set[int]]] = [  # the first one in every run of the tests
    ("run what is rejected", ["run", "odd", "--out", "out", "--mapping", "good.json"], {3}),
    ("map", ["map", "set", "--mode", "sft", "--explain"], {0, 1, 3}),
    ("map as JSON", ["map", "set", "--json"], {0, 1, 3}),
    ("the prompt", ["map", "set", "--show-prompt"], {0}),
    ("check", ["check", "good.json", "set"], {0}),
    ("check as JSON", ["check", "good.json", "set", "--json"], {0}),
    ("check what fails", ["check", "bad.json", "set"], {1}),
    ("check roles", ["check", "roles.json", "set"], {1}),
    ("convert", ["convert", "good.json", "set", "--out", "out"], {0}),
    ("convert as JSON", ["convert", "good.json", "set", "--out", "out", "--json"], {0}),
    ("a dry run", ["convert", "good.json", "set", "--out", "out", "--dry-run"], {0}),
    ("check what is rejected", ["check", "good.json", "odd"], {1}),
    ("convert what is rejected", ["convert", "good.json", "odd", "--out", "out"], {0}),
    ("convert nothing", ["convert", "bad.json", "set", "--out", "out"], {1}),
    ("convert no role", ["convert", "roles.json", "set", "--out", "out"], {1}),
    ("run", ["run", "set", "--out", "out", "--mapping", "good.json", "--yes"], {0}),
    ("run dry", ["run", "set", "--out", "out", "--mapping", "good.json", "--dry-run"], {0}),
    ("run and wait", ["run", "set", "--out", "out", "--mapping", "good.json"], {3}),
    ("run what fails", ["run", "set", "--out", "out", "--mapping", "bad.json", "--yes"], {1}),
    ("the rules", ["run", "set", "--out", "out", "--mode", "sft", *SURE], {0, 1, 3}),
    ("the rules wait", ["run", "set", "--out", "out", "--mode", "pt"], {1, 3}),
    ("the rules as JSON", ["run", "set", "--out", "out", "--mode", "pt", "--json"], {1, 3}),
    ("drift", ["convert", "drifted.json", "set", "--out", "out"], {1}),
]


@pytest.mark.parametrize(
    ("words", "codes"), first_quick(pytest.param(*case[1:], id=case[0]) for case in COMMANDS)
)
def test_no_canary_is_left_by_a_command(
    aviary: Aviary, tmp_path: Path, words: list[str], codes: set[int]
) -> None:
    mapping(tmp_path, "good.json")
    mapping(tmp_path, "bad.json", "info", "log.said")
    roles = {"path": "c1", "map": {"nobody": "user"}}
    said = [{"role": roles, "content": "c2"}, {"role": "assistant", "content": "c2"}]
    mapping(tmp_path, "roles.json", messages=said)
    if "drifted.json" in words:
        aviary.drifted(tmp_path)
    assert aviary.ingot(*words) in codes
    assert aviary.escaped(NEEDLES) == set()


MAPPINGS = {
    "who.json",
    "one/mapping.json",
    "two.proposal/mapping.json",
    "three.proposal/mapping.json",
}


def test_who_speaks_stands_in_the_mapping_alone(aviary: Aviary, chat: Any, tmp_path: Path) -> None:
    """Speakers that are addresses: a mapping needs them, nothing else tells them."""
    chat.always = reply()
    names = ("canary.bird+x@secret-host.example", "+4915123456789")
    turns = [{"from": names[n % 2], "value": f"{WORDS[n % 3]} is turn {n}."} for n in range(4)]
    folder = tmp_path / "talks"
    folder.mkdir()
    (folder / "set.jsonl").write_text(f"{json.dumps({'turns': turns})}\n" * 30)
    role = {"path": "from", "map": dict(zip(names, ("user", "assistant"), strict=True))}
    said = [{"each": "turns[*]", "role": role, "content": "value"}]
    mapping(tmp_path, "who.json", messages=said)
    assert aviary.ingot("convert", "who.json", "talks", "--out", "one") == 0
    aviary.asks("run", "talks", "--out", "two", "--mode", "sft", "--mapper", "llm", *SURE)
    aviary.asks("run", "talks", "--out", "three", "--mode", "sft", "--mapper", "llm")
    found = {name for name, _ in aviary.escaped(NEEDLES)}
    waiting = "home/runs.sqlite"  # holds the mapping of the run that waits, until it is forgotten
    assert {name for name in found if not name.endswith(".json")} <= {waiting}
    assert {name for name in found if name.endswith(".json")} == MAPPINGS
