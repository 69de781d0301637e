"""The server of `ingot ui`: who is answered, what is shown, what a button may do."""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `ui` is not installed")
from starlette.testclient import TestClient

from ingot.agent.chat.conversation import ChatStore
from ingot.agent.chat.operations import convert_conversation
from ingot.agent.context import state_home
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import configured_endpoint
from ingot.agent.proposing.llm.mapper import ModelAccess
from ingot.agent.served.request_guard import guard_requests
from ingot.agent.ui import onboarding
from ingot.agent.ui.onboarding import Onboarding
from ingot.agent.ui.page_server import build_app
from tests.conftest import SURE

PLACE, TOKEN = "127.0.0.1:8123", "t0ken" * 8
EXAMPLES = Path(__file__).parents[3] / "examples"
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in ("en_chats", "zh_exam", "tokenizer"):
        shutil.copytree(EXAMPLES / name, folder / name)
    (tmp_path / "outside.jsonl").write_text('{"text": "canary-4410"}\n' * 40)
    return folder


class Page:
    """Requests of the page, with its token."""

    def __init__(self, root: Path, asking: ModelAccess | None = None) -> None:
        app = guard_requests(build_app(Onboarding(root, asking, "auto")), PLACE, TOKEN)
        self.client = TestClient(app, base_url=f"http://{PLACE}")
        self.client.headers["authorization"] = f"Bearer {TOKEN}"

    def get(self, path: str, /, **parameters: Any) -> Any:
        answer = self.client.get(f"/api/{path}", params=parameters)
        return answer.json()

    def post(self, path: str, /, **body: Any) -> list[tuple[str, Any]]:
        """The events of an answer; one event without a name where it is no stream."""
        answer = self.client.post(f"/api/{path}", content=json.dumps(body))
        if not answer.headers["content-type"].startswith("text/event-stream"):
            return [("", answer.json())]
        parts = [one.split("\n", 1) for one in answer.text.strip().split("\n\n")]
        return [(a.removeprefix("event: "), json.loads(b.removeprefix("data: "))) for a, b in parts]

    def done(self, path: str, /, **body: Any) -> Any:
        name, facts = self.post(path, **body)[-1]
        assert name == "done", facts
        return facts

    def approve(self, id_: str, **body: Any) -> list[tuple[str, Any]]:
        """The events of an approval of the mapping as it is."""
        seen = self.get(f"onboard/{id_}")["digest"]
        return self.post(f"onboard/{id_}/approve", seen=seen, **body)

    def refused(self, path: str, /, **body: Any) -> dict[str, str]:
        facts: dict[str, str] = self.post(path, **body)[-1][1]["error"]
        return facts


@pytest.fixture
def page(root: Path) -> Iterator[Page]:
    one = Page(root)
    with one.client:
        yield one


# --- who is answered


def test_only_its_own_page_with_the_token_is_answered(page: Page) -> None:
    right = {"authorization": f"Bearer {TOKEN}"}
    page.client.headers.pop("authorization")
    for headers, status in (
        ({}, 401),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"authorization": TOKEN}, 401),
        ({**right, "host": "rebound.example"}, 403),
        ({**right, "host": "127.0.0.1:80"}, 403),
        ({**right, "origin": "https://example.com"}, 403),
        ({**right, "origin": "null"}, 403),
        ({**right, "sec-fetch-site": "cross-site"}, 403),
        ({**right, "sec-fetch-site": "same-site"}, 403),
        ({**right, "origin": f"http://{PLACE}", "sec-fetch-site": "same-origin"}, 200),
        (right, 200),
    ):
        assert page.client.get("/api/start", headers=headers).status_code == status, headers
    told = page.client.get("/")
    assert told.status_code == 200
    assert "script-src 'self'" in told.headers["content-security-policy"]
    assert told.headers["x-content-type-options"] == "nosniff"
    for path in (
        "/static/../page_server.py",
        "/static/%2e%2e%2fpage_server.py",
        "/static/__init__.py",
    ):
        assert page.client.get(path).status_code == 404


@pytest.mark.more
@pytest.mark.parametrize("name", ["..", "../outside.jsonl", "/etc/passwd", "s3://bucket/x", "a\nb"])
def test_nothing_outside_of_the_root_is_named(page: Page, root: Path, name: str) -> None:
    (root / "link").symlink_to(root.parent)
    for path in ("files", "result", "result/records", "result/tokens", "lake"):
        assert "error" in page.get(path, path=name)
    assert page.refused("onboard", source=name)["problem"]
    assert page.refused("review", old=name, new=name)["problem"]
    assert page.refused("onboard", source="link/outside.jsonl")["problem"]
    names = [one["name"] for one in page.get("files")["entries"]]
    assert "link" not in names
    assert "en_chats" in names
    view = page.done("onboard", source="en_chats")
    assert "error" in page.approve(view["id"], out=name)[-1][1]
    assert "error" in page.approve(view["id"], out="r", tokenizer=name)[-1][1]
    assert page.refused(f"onboard/{view['id']}/say", line="save ../m.json")["problem"]
    assert not (root.parent / "m.json").exists()


def test_a_request_that_is_none_is_refused(page: Page) -> None:
    for body in (
        b"",
        b"[]",
        b"{",
        b"[" * 200_000,
        b'{"source": 1}',
        b"{}",
        b'{"x": "' + b"y" * (1 << 20) + b'"}',
    ):
        answer = page.client.post("/api/onboard", content=body)
        assert answer.status_code == 400, body[:20]
        assert answer.json()["error"]["problem"]
    assert "control characters" in page.refused("onboard", source="\ud800")["problem"]
    assert page.refused("onboard/nothing/say", line="undo")["problem"] == (
        "no saved conversation has this id"
    )


# --- from a source to tokens


@pytest.mark.parametrize("path", ["/api/review", "/api/onboard", "/api/lake/decide"])
def test_a_client_that_leaves_in_the_middle_is_no_error(root: Path, path: str) -> None:
    app = guard_requests(build_app(Onboarding(root, None, "auto")), PLACE, TOKEN)
    headers = {"host": PLACE, "authorization": f"Bearer {TOKEN}", "content-length": "900"}
    scope = {
        **{"type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": ""},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    parts = [
        {"type": "http.request", "body": b'{"old": ', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return parts.pop(0)

    sent = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 400


@pytest.mark.more
def test_fields_have_the_colours_of_what_they_become(page: Page) -> None:
    view = page.done("onboard", source="zh_exam/junior_choice_questions.jsonl.gz")
    fields = {one["path"]: one for one in view["fields"]}
    assert fields["stem"]["targets"] == ["user"]
    assert fields["subject"]["colour"] is None
    assert fields["options[*]"]["parent"] == "options"
    assert fields["options[*]"]["depth"] == 1
    first = view["examples"][0]
    row = {one["path"]: one["spans"][0] for one in first["row"] if one["path"]}
    user = next(one for one in first["records"][0] if one["label"] == "user")
    assert user["spans"][0] == row["stem"]
    assert row["stem"]["colour"] == fields["stem"]["colour"]
    targets = {one["name"]: one["fields"] for one in view["targets"]}
    assert targets["assistant"] == ["analysis", "answer"]  # as the mapping has them
    coloured = [one["field"] for one in user["spans"] if one["colour"] is not None]
    assert coloured == ["stem", *["options[*]"] * 4]
    assert {one["state"] for one in view["gates"]} <= {"pass", "person"}
    assert view["can_approve"]


def test_rows_without_records_are_shown(page: Page, root: Path) -> None:
    rows = [{"a": f"{n}", "b": {"c": [n, n + 1]}} for n in range(40)]
    (root / "numbers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    view = page.done("onboard", source="numbers.jsonl")
    assert not view["examples"][0]["records"]
    assert [one["path"] for one in view["examples"][0]["row"]] == ["a", "b", "b.c", *["b.c[*]"] * 2]


@pytest.mark.more
def test_a_field_of_two_parts_has_its_colour_in_both(page: Page) -> None:
    view = page.done("onboard", source="zh_exam/junior_choice_questions.jsonl.gz")
    line = "set meta.original_id stem"
    told = page.done(f"onboard/{view['id']}/say", line=line)["view"]
    lines = {one["label"]: one["spans"] for one in told["examples"][0]["records"][0]}
    assert lines["user"][0]["field"] == lines["meta.original_id"][0]["field"] == "stem"
    assert lines["user"][0]["colour"] == lines["meta.original_id"][0]["colour"] is not None


@pytest.mark.more
def test_a_blank_cell_fills_nothing(page: Page, root: Path) -> None:
    lines = [
        "id,body,note",
        *(f"{n},{'A text of several words. ' * 9},{' ' * (n % 4)}" for n in range(40)),
    ]
    (root / "notes.csv").write_text("\n".join(lines) + "\n")
    view = page.done("onboard", source="notes.csv")
    assert {one["path"]: one["rows"] for one in view["fields"]} == {"id": 40, "body": 40, "note": 0}
    chats = page.done("onboard", source="en_chats")["fields"]
    assert {one["rows"] for one in chats} == {25}


@pytest.mark.more
def test_a_change_is_tried_and_taken_back(page: Page) -> None:
    view = page.done("onboard", source="en_chats")
    colours = {one["path"]: one["colour"] for one in view["fields"]}
    assert colours["conversations[*].value"] == 0
    assert colours["conversations[*]"] is colours["conversations[*].from"] is None
    say = f"onboard/{view['id']}/say"
    told = page.done(say, line="role gpt user")
    effect = told["effect"]
    assert [effect[name] for name in ("before", "after", "lost")] == [24, 0, 24]
    assert not told["view"]["can_approve"]
    (problem,) = told["view"]["problems"]
    assert "no message of the assistant" in problem["words"]
    error = page.approve(view["id"], out="results/x")[-1][1]["error"]
    assert error["problem"].startswith("does not pass: ")
    assert page.done(say, line="undo")["view"]["can_approve"]
    assert page.done(say, line="set language nowhere")["problems"]
    assert "usage" in page.done(say, line="swap it")["say"]
    assert page.done(say, line="alternatives")["alternatives"]
    assert page.done(say, line="help set")["commands"]
    assert "button" in page.done(say, line="ok")["say"]
    assert "lies outside" in page.refused(say, line="out /elsewhere")["problem"]
    assert "lies outside" in page.approve(view["id"], out="../x")[-1][1]["error"]["problem"]
    assert "lies outside" in page.refused(say, line="out ../x")["problem"]
    assert page.done(say, line="out made/here")["view"]["out"] == "made/here"
    assert page.get(f"onboard/{view['id']}")["step"] == {"at": 1, "of": 2}


@pytest.mark.more
def test_rows_are_asked_for_below_their_conversation(page: Page) -> None:
    view = page.done("onboard", source="en_chats")
    assert view["rows"] == {
        "of": 25,
        "found": 25,
        "outcomes": [["record", 24], ["no_assistant", 1]],
    }
    asked = {"field": "model", "value": "atlas-chat-mini"}
    found = page.get(f"onboard/{view['id']}/rows", **asked)
    assert found["rows"]["found"] == len(found["examples"]) == 5
    lost = page.get(f"onboard/{view['id']}/rows", **asked, outcome="no_assistant")
    assert lost["rows"]["found"] == 0
    assert page.get(f"onboard/{view['id']}/rows")["examples"] == view["examples"]


@pytest.mark.more
def test_a_question_stands_above_its_answer(page: Page) -> None:
    view = page.done("onboard", source="en_chats")
    told = page.done(f"onboard/{view['id']}/say", line="please remove the html")
    assert [one["who"] for one in told["view"]["said"]] == ["you", "ingot"]


@pytest.mark.more
def test_from_a_source_to_tokens(page: Page, root: Path) -> None:
    view = page.done("onboard", source="en_chats")
    named = {"out": "results/chats", "tokenizer": "tokenizer/tokenizer.json"}
    events = page.approve(view["id"], **named)
    assert [name for name, _ in events if name != "progress"] == ["done"]
    assert events[-1][1]["done"] == "results/chats"
    assert {one["name"]: one["kind"] for one in page.get("files", path="results")["entries"]} == {
        "chats": "result"
    }
    result = page.get("result", path="results/chats")
    rows = result["rows"]
    assert rows["read"] == rows["converted"] + rows["rejected"] + rows["filtered"] == 25
    assert sum(one["count"] for one in result["lengths"]["bins"]) == 24
    assert 0 < result["tokens"]["trained"] < result["tokens"]["tokens"]
    asked = page.get("result/records", path="results/chats", start=23, count=9)
    assert asked["total"] == 24
    assert [one["number"] for one in asked["records"]] == [23]
    rejects = page.get("result/rejects", path="results/chats")["rejects"]
    assert [one["reason"] for one in rejects] == ["no_assistant"]
    shown = page.get("result/tokens", path="results/chats", count=1, tokenizer=named["tokenizer"])
    tokens = shown["documents"][0]["tokens"]
    assert "".join(one["text"] for one in tokens).startswith("<|im_start|>system\nYou are")
    assert {one["trained"] for one in tokens} == {True, False}
    ids = page.get("result/tokens", path="results/chats", count=1)
    assert {one["text"] for one in ids["documents"][0]["tokens"]} > {"1 ", "1161 "}
    assert ids["tokenizer"] is None
    assert ids["notes"]


@pytest.mark.more
def test_only_what_the_person_has_seen_is_approved(page: Page, root: Path) -> None:
    view = page.done("onboard", source="en_chats")
    page.done(f"onboard/{view['id']}/say", line="set language none")  # in another window
    named = {"out": "results/x", "seen": view["digest"]}
    assert "not the one" in page.refused(f"onboard/{view['id']}/approve", **named)["problem"]
    assert not (root / "results").exists()
    assert not page.get(f"onboard/{view['id']}")["converting"]
    page.done(f"onboard/{view['id']}/say", line="undo")
    assert page.done(f"onboard/{view['id']}/approve", **named)["done"] == "results/x"


@pytest.mark.more
def test_of_two_approvals_at_a_time_one_is_refused(
    page: Page, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = page.done("onboard", source="en_chats")
    begun, may_end = Event(), Event()

    def convert(*given: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return convert_conversation(*given)

    monkeypatch.setattr(onboarding, "convert_conversation", convert)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(page.approve, view["id"], out="first")
        assert begun.wait(60)
        assert page.get(f"onboard/{view['id']}")["converting"]
        for refused in (
            page.approve(view["id"], out="second")[-1],
            page.post(f"onboard/{view['id']}/say", line="undo")[-1],
        ):
            assert refused[1]["error"]["problem"] == "is being converted"
        may_end.set()
        assert first.result()[-1][1]["done"] == "first"
    assert not (root / "second").exists()


@pytest.mark.more
def test_a_conversation_that_went_on_elsewhere_is_read_anew(page: Page) -> None:
    view = page.done("onboard", source="en_chats")
    say = f"onboard/{view['id']}/say"
    elsewhere = ChatStore(state_home())
    there = elsewhere.load(view["id"])
    page.get(f"onboard/{view['id']}")  # to look changes nothing
    elsewhere.keep(there)
    assert "another process has continued" in page.refused(say, line="role gpt user")["problem"]
    assert page.get(f"onboard/{view['id']}")["step"] == {"at": 1, "of": 1}
    elsewhere.keep(there)
    problem = page.approve(view["id"], out="r")[-1][1]["error"]["problem"]
    assert "another process has continued" in problem
    assert not page.get(f"onboard/{view['id']}")["converting"]
    assert page.done(say, line="set language none")["view"]["step"]["at"] == 2


@pytest.mark.more
def test_nothing_is_read_through_links_that_leave_the_root(page: Page, root: Path) -> None:
    view = page.done("onboard", source="en_chats")
    page.approve(view["id"], out="good", tokenizer="tokenizer/tokenizer.json")
    shutil.copytree(root / "good", root.parent / "far")
    for name in ("manifest.json", "records", "rejected", "tokens"):
        fake = root / f"fake-{name}"
        shutil.copytree(root / "good", fake)
        (shutil.rmtree if (fake / name).is_dir() else os.remove)(fake / name)
        (fake / name).symlink_to(root.parent / "far" / name)
        for path in ("result", "result/records", "result/rejects", "result/tokens"):
            assert "lies outside" in page.get(path, path=fake.name)["error"]["problem"], name
    (root / "toks").mkdir()
    (root / "toks" / "tokenizer.json").symlink_to(EXAMPLES / "tokenizer" / "tokenizer.json")
    asked = page.get("result/tokens", path="good", tokenizer="toks")
    assert "lies outside" in asked["error"]["problem"]
    assert "error" in page.approve(view["id"], out="more", tokenizer="toks")[-1][1]
    (root / "linked").mkdir()
    (root / "linked" / "far.jsonl").symlink_to(root.parent / "outside.jsonl")
    page.done(f"onboard/{view['id']}/say", line="save m.json")
    seen = page.post("review", old="m.json", new="m.json", source="linked")[0][1]
    assert "lies outside" in seen["error"]["problem"]
    meta = json.loads((root / "good/tokens/en_chats.meta.json").read_text())
    meta["tokenizer"]["file"] = str(EXAMPLES / "tokenizer" / "tokenizer.json")
    (root / "good/tokens/en_chats.meta.json").write_text(json.dumps(meta))
    assert page.get("result/tokens", path="good")["tokenizer"] is None


@pytest.mark.more
def test_tokens_read_as_their_text(page: Page, root: Path) -> None:
    view = page.done("onboard", source="zh_exam/junior_choice_questions.jsonl.gz")
    page.approve(view["id"], out="zh", tokenizer="tokenizer/tokenizer.json")
    asked = {"path": "zh", "count": 1, "tokenizer": "tokenizer/tokenizer.json"}
    tokens = page.get("result/tokens", **asked)["documents"][0]["tokens"]
    assert "下列现象中，属于凝华的是" in "".join(one["text"] for one in tokens)
    assert not any("\ufffd" in one["text"] for one in tokens)


@pytest.mark.more
def test_speakers_that_may_not_be_shown_are_hidden(page: Page, root: Path) -> None:
    rows = [
        {
            "talk": [
                {"who": "ann.lee@corp-mail.com", "said": f"Where is parcel {n}? I want it."},
                {"who": "support", "said": f"Parcel {n} is on its way, it comes today."},
            ]
        }
        for n in range(40)
    ]
    (root / "mail.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    view = page.done("onboard", source="mail.jsonl")
    roles = 'roles="ann.lee@corp-mail.com":user,support:assistant'
    line = f"set messages talk[*] speaker=who text=said {roles}"
    told = page.done(f"onboard/{view['id']}/say", line=line)["view"]
    assert "ann.lee" not in json.dumps(told)
    speakers = {one["name"]: (one["role"], one["count"], one["command"]) for one in told["roles"]}
    assert speakers["support"] == ("assistant", 40, "role support")
    assert speakers["[email]"][2] is None


@pytest.mark.more
def test_filtered_rows_are_counted_and_shown(page: Page, root: Path) -> None:
    rows = [{"q": f"What is {n}?", "a": f"It is {n}.", "kind": "ab"[n % 2]} for n in range(40)]
    (root / "qa.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    view = page.done("onboard", source="qa.jsonl")
    page.done(f"onboard/{view['id']}/say", line="keep kind is a")
    page.approve(view["id"], out="kept")
    assert page.get("result", path="kept")["rejects"] == {"filtered": 20}
    shown = page.get("result/rejects", path="kept", start=0, count=100)
    assert shown["total"] == len(shown["rejects"]) == 20


@pytest.mark.more
def test_a_conversation_goes_on_after_a_restart_and_in_ingot_chat(page: Page, root: Path) -> None:
    view = page.done("onboard", source="en_chats")
    page.done(f"onboard/{view['id']}/say", line="set language none")
    other = Page(root)
    listed = other.get("start")["conversations"]
    assert [(one["id"], one["source"]) for one in listed] == [(view["id"], "en_chats")]
    assert other.get(f"onboard/{view['id']}")["step"]["at"] == 2
    (root.parent / "elsewhere").mkdir()
    elsewhere = Page(root.parent / "elsewhere")
    assert elsewhere.get("start")["conversations"] == []
    assert "lies outside" in elsewhere.get(f"onboard/{view['id']}")["error"]["problem"]


def test_hostile_names_and_values_stay_text(page: Page, root: Path) -> None:
    rows = [
        {f"q{HOSTILE}, a|b": f"{HOSTILE} question {n}?", "an swer": f"answer {n} {HOSTILE}"}
        for n in range(40)
    ]
    file = root / "a <b>.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    view = page.done("onboard", source=file.name)
    paths = [one["path"] for one in view["fields"]]
    assert len(paths) == 2
    say = f"onboard/{view['id']}/say"
    for target, path in zip(("user", "assistant"), paths, strict=True):
        told = page.done(say, line=f"set {target} {path}")
        assert not told["problems"], told
    assert told["view"]["decision"] == "sft"
    first = told["view"]["examples"][0]["records"][0]
    assert first[0]["spans"][0]["text"].startswith(HOSTILE)
    assert first[0]["spans"][0]["field"] == paths[0]


@pytest.mark.more
def test_a_model_hears_plain_language_and_its_words_are_streamed(
    root: Path, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    asking = ModelAccess(endpoint=configured_endpoint("m", chat.url), store=Store(None))
    online = Page(root, asking)
    with online.client:
        view = online.done("onboard", source="zh_exam/junior_choice_questions.jsonl.gz")
        assert view["model"].startswith("m at 127.0.0.1")
        edit = {"set": "content", "number": 2, "parts": ["answer"]}
        chat.queue = [{"say": "Only the answer.", "edits": [edit]}]
        events = online.post(f"onboard/{view['id']}/say", line="leave the explanation out")
    words = [facts["text"] for name, facts in events if name == "word"]
    assert len(words) > 1
    assert "".join(one for one in words if one) == events[-1][1]["heard"] == "Only the answer."
    assert events[-1][1]["effect"]["changed"] == 39
    assert [one["who"] for one in events[-1][1]["view"]["said"]] == ["you", "model"]


# --- lakes and reviews


@pytest.mark.more
def test_a_waiting_set_is_decided(page: Page, root: Path) -> None:
    from ingot.cli.app import app

    with pytest.raises(SystemExit):
        app(["lake", "run", str(EXAMPLES / "en_chats"), "--out", str(root / "far"), *SURE])
    assert "lies outside" in page.get("lake", path="far")["error"]["problem"]
    shutil.copytree(EXAMPLES / "lake" / "raw", root / "raw")
    with pytest.raises(SystemExit):
        app(["lake", "run", str(root / "raw"), "--out", str(root / "lake"), *SURE])
    seen = page.get("lake", path="lake")
    name = seen["waiting"][0]["name"]
    view = page.done("lake/open", lake="lake", name=name)
    assert view["lake"] == {"path": "lake", "name": name}
    assert "button" in page.done(f"onboard/{view['id']}/say", line="ok")["say"]
    assert "error" in page.approve(view["id"], out="results/x")[-1][1]
    page.done(f"onboard/{view['id']}/say", line="set language none")
    assert page.get("start")["conversations"] == []
    changed = page.get(f"onboard/{view['id']}")["digest"]
    wrong = {"id": view["id"], "decision": "approve", "seen": view["digest"]}
    assert "not the one" in page.post("lake/decide", **wrong)[0][1]["error"]["problem"]
    decided = page.post("lake/decide", **{**wrong, "seen": changed})[0][1]
    mapping = json.loads((root / decided["mapping"]).read_text())
    assert "language" not in mapping["meta"]
    assert mapping["provenance"]["reviewed"]
    assert name not in [one["name"] for one in page.get("lake", path="lake")["waiting"]]
    seen = page.get("lake", path="lake")
    assert seen["by_status"]["approved"] == 1
    assert len(seen["data_sets"]) == seen["sets"]
    results = [one["result"] for one in seen["data_sets"] if one["result"]]
    assert results
    assert all(page.get("result", path=one)["kind"] in ("pt", "sft") for one in results)


@pytest.mark.more
def test_a_changed_mapping_is_reviewed(page: Page, root: Path) -> None:
    view = page.done("onboard", source="en_chats")
    say = f"onboard/{view['id']}/say"
    assert page.done(say, line="save old.json")["say"] == "written: old.json"
    page.done(say, line="role gpt user")
    page.done(say, line="save new.json")
    assert page.get("files")["entries"][-1]["kind"] == "mapping"
    found = page.post("review", old="old.json", new="new.json", source="en_chats")[0][1]
    assert found["verdict"] == "block"
    assert found["mappings"][0]["changes"]


@pytest.mark.more
def test_a_conversion_that_fails_says_why(page: Page, root: Path) -> None:
    view = page.done("onboard", source="en_chats")
    (root / "taken").mkdir()
    (root / "taken" / "mine.txt").write_text("keep")
    error = page.approve(view["id"], out="taken")[-1][1]["error"]
    assert error["problem"]
    assert [one.name for one in (root / "taken").iterdir()] == ["mine.txt"]
    assert not page.get(f"onboard/{view['id']}")["converting"]
