"""`ingot chat` as a person meets it: piped, at a terminal, with a model and without one."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import Result

from tests.agent.conftest import ChatServer
from tests.cli.conftest import reply
from tests.cli.test_terminal import Terminal
from tests.command_line import ingot

PROPOSED = reply("pt", text=["title", "body"])  # as the rules do, who are not quite sure
LOAF = "Loaf number {} was left in a warm place for two hours. It had doubled by then, and broke."


@pytest.fixture
def folder(tmp_path):
    rows = (
        {"id": f"p{n}", "title": f"How bread {n} rises", "body": LOAF.format(n)} for n in range(30)
    )
    (tmp_path / "raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def talk(folder: Path, *words: str, lines: str = "", **environment: str) -> Result:
    """The command in this process, its lines piped in; processes of their own stand below."""
    home = {"INGOT_HOME": str(folder / "home"), **environment}
    return ingot(*words, code=None, folder=folder, lines=lines, **home)


@pytest.fixture
def model():
    server = ChatServer()
    yield server
    server.close()


def asked(server: ChatServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.url, "INGOT_MODEL": "m", "OPENAI_API_KEY": "k"}


@pytest.mark.more
def test_nothing_in_onboarding_needs_a_network(folder):
    lines = "set text body\nundo\ndrop body under 10\nshow 1\nok\nout done\nok\nquit\n"
    said = talk(folder, "chat", "raw.jsonl", lines=lines)
    assert said.exit_code == 0, said.stderr
    assert "text  title + body -> body" in said.stdout
    assert "30/30 rows" in said.stdout
    assert "No output folder is set. Type: out DIR" in said.stdout
    assert "30 read, 30 converted" in said.stdout
    document = json.loads((folder / "done" / "mapping.json").read_text())
    assert document["text"] == ["title", "body"]
    assert document["where"] == [{"path": "body", "min_chars": 10}]
    assert document["provenance"]["edited"] is True


def test_the_forms_of_a_command_are_listed(folder):
    told = talk(
        folder, "chat", "raw.jsonl", lines="help set\nhelp swap\nhelp nothing\nquit\n"
    ).output
    assert "set messages LIST speaker=F text=F" in told
    assert "set group KEY,KEY sort FIELD" in told
    assert "exchange user and assistant" in told
    assert "there is no command 'nothing' (usage: help [COMMAND])" in told


@pytest.mark.more
def test_records_that_are_joined_are_counted(folder):
    rows = ({"talk": n // 3, "turn": n % 3, "text": LOAF.format(n)} for n in range(60))
    (folder / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = "set group none\nset text text\nset group talk sort turn\nset text text\nquit\n"
    told = talk(folder, "chat", "lines.jsonl", "--mapper", "rules", lines=lines).output
    assert "60 -> 20 records\n" in told
    assert "lost" not in told


QUESTIONS = (
    ("How do I reset my password for the portal?", "我怎么重置门户网站的密码？"),
    ("Where can I find the invoice of last month?", "上个月的发票在哪里可以找到？"),
    ("Can I change the delivery address later?", "下单以后可以更改收货地址吗？"),
)


@pytest.fixture
def both_languages(folder):
    rows = (
        {
            "question": f"{QUESTIONS[n % 3][0]} ({n})",
            "answer": f"Please open the settings page and follow the steps shown there: {n}.",
            "question_zh": f"{QUESTIONS[n % 3][1]}（{n}）",
            "answer_zh": f"请打开设置页面，按照那里显示的步骤操作，编号{n}。",
        }
        for n in range(30)
    )
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "faq.jsonl").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.more
@pytest.mark.parametrize(
    ("first", "language"),
    [("", {"literal": "zh"}), ("set meta.language de\n", {"literal": "de"}),
     ("set meta.language none\n", None)],
)  # fmt: skip
def test_the_language_is_that_of_the_texts_unless_a_person_said_it(both_languages, first, language):
    lines = f"{first}set user question_zh\nset assistant answer_zh\nok\nquit\n"
    said = talk(both_languages, "chat", "faq.jsonl", "--out", "done", lines=lines)
    assert said.exit_code == 0, said.output
    document = json.loads((both_languages / "done" / "mapping.json").read_text("utf-8"))
    assert document.get("meta", {}).get("language") == language


@pytest.mark.more
def test_doubts_are_not_told_of_the_mapping_that_a_person_made(both_languages):
    lines = "set user question_zh\nset assistant answer_zh\nok\nquit\n"
    said = talk(both_languages, "chat", "faq.jsonl", "--out", "done", lines=lines).output
    before, _, after = said.partition("edited by a person")
    assert "doubts: another mapping fits nearly as well" in before
    assert "doubts:" not in after
    assert "Doubts" not in (both_languages / "done" / "report.md").read_text("utf-8")


def test_a_model_that_is_not_asked_is_not_called_missing(folder, model):
    words = ("chat", "raw.jsonl", "--mapper", "rules")
    told = talk(folder, *words, lines="what now?\nquit\n", **asked(model)).output
    assert "The mapper is rules and no model is asked" in told
    assert "No model is configured" not in told


@pytest.mark.more
def test_it_goes_on_where_it_was_left(folder):
    first = talk(folder, "chat", "raw.jsonl", lines="set text body\n")
    id_ = first.stdout.rsplit("--resume ", 1)[1].strip()
    listed = talk(folder, "chat", "--list")
    assert [line.split()[:2] for line in listed.stdout.splitlines()] == [
        ["id", "state"],
        [id_, "open"],
    ]
    again = talk(folder, "chat", "--resume", id_, "--out", "done", lines="undo\nredo\nok\n")
    assert again.exit_code == 0, again.stderr
    assert json.loads((folder / "done" / "mapping.json").read_text())["text"] == "body"
    listed = json.loads(talk(folder, "chat", "--list", "--json").stdout)
    assert [(one["id"], one["state"]) for one in listed] == [(id_, "converted")]
    assert talk(folder, "chat", "--forget", id_).exit_code == 0
    assert "no conversations yet" in talk(folder, "chat", "--list").stdout


@pytest.mark.more
def test_plain_language_goes_to_the_model_and_back(folder, model):
    model.queue = [
        PROPOSED,
        {"say": "Nur noch der Text.", "edits": [{"set": "text", "parts": ["body"]}]},
        {"say": "Because it is long.", "edits": []},
    ]
    lines = "leave the title out\nwhy the body?\nquit\n"
    said = talk(folder, "chat", "raw.jsonl", lines=lines, **asked(model))
    assert said.exit_code == 0, said.stderr
    assert said.stdout.count("Nur noch der Text.") == 1
    assert "text  title + body -> body" in said.stdout
    assert "Because it is long." in said.stdout
    assert "asking m at 127.0.0.1" in said.stderr
    assert all(request["stream"] for request in model.requests)


@pytest.mark.more
def test_an_error_ends_a_turn_and_not_the_conversation(folder):
    (folder / "taken").mkdir()
    (folder / "taken" / "something").touch()
    lines = "out taken\nok\nsave raw.jsonl\nsave m.json\nset text body\n"
    said = talk(folder, "chat", "raw.jsonl", lines=lines)
    assert said.exit_code == 0, said.stderr
    assert "holds files that ingot did not write" in said.stdout
    assert "error: raw.jsonl: is there already" in said.stdout
    assert "written: m.json" in said.stdout
    assert "title + body -> body" in said.stdout
    checked = talk(folder, "check", "m.json", "raw.jsonl")
    assert checked.exit_code == 0


@pytest.mark.more
def test_a_set_without_a_mapping_is_mapped_by_hand(folder):
    rows = "".join(json.dumps({"n": n, "t": f"{n} und mehr"}) + "\n" for n in range(30))
    (folder / "raw.jsonl").write_text(rows)
    said = talk(folder, "chat", "raw.jsonl", "--out", "done", lines="set text t\nok\n")
    assert said.exit_code == 0, said.stderr
    assert "-> pt" in said.stdout
    assert "30 written" in said.stdout


def test_what_shows_no_record_says_why(folder):
    lines = "show 1\nset text nothing\nkeep id is p99\nshow 1\n"
    said = talk(folder, "chat", "raw.jsonl", "--mapper", "rules", lines=lines)
    assert said.stdout.count("Row 1") >= 1
    assert "No sampled row gives a record: gates shows why." in said.stdout
    assert "in [brackets]" not in said.stdout


def test_what_is_hidden_on_the_screen_is_said_to_be_in_the_records(folder):
    rows = (folder / "raw.jsonl").read_text().replace("Loaf", "ann@example.com: Loaf")
    (folder / "raw.jsonl").write_text(rows)
    said = talk(folder, "chat", "raw.jsonl", "--mapper", "rules", lines="show 1\n")
    assert "[email]" in said.stdout
    assert "Values in [brackets] are hidden here; the records hold them." in said.stdout


@pytest.mark.more
def test_what_is_said_when_it_goes_on_counts(folder, model):
    id_ = kept(talk(folder, "chat", "raw.jsonl", "--out", "done", lines="ok\n"))
    again = ("--records", "jsonl", "--overwrite", "--share-values", "none")
    model.always = {"say": "Aha.", "edits": []}
    said = talk(folder, "chat", "--resume", id_, *again, lines="what is it?\nok\n", **asked(model))
    assert said.exit_code == 0, said.stderr
    assert (folder / "done" / "records" / "part-00000.jsonl").is_file()
    assert "doubled" not in json.dumps(model.requests)


def kept(said: Result) -> str:
    return said.stdout.rsplit("--resume ", 1)[1].strip()


@pytest.mark.more
def test_a_second_process_does_not_convert_what_went_on_elsewhere(folder):
    id_ = kept(talk(folder, "chat", "raw.jsonl", "--out", "done"))
    words = [sys.executable, "-m", "ingot", "chat", "--resume", id_]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    home = {**os.environ, "INGOT_HOME": str(folder / "home")}
    with subprocess.Popen(words, cwd=folder, env=home, text=True, **streams) as open_one:
        while "help lists" not in open_one.stdout.readline():
            pass
        talk(folder, "chat", "--resume", id_, lines="set text body\n")
        _, errors = open_one.communicate("ok\n")
    assert open_one.returncode == 1
    assert "another process has continued" in errors
    assert not (folder / "done").exists()


@pytest.mark.more
def test_a_line_that_is_not_utf8_is_not_read(folder):
    done = subprocess.run(
        [sys.executable, "-m", "ingot", "chat", "raw.jsonl"],
        input=b'set system "\xff"\nset text body\n',
        capture_output=True,
        cwd=folder,
        env={**os.environ, "INGOT_HOME": str(folder / "home"), "PYTHONUTF8": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"this line is not UTF-8" in done.stdout
    assert b"title + body -> body" in done.stdout


@pytest.mark.more
def test_a_wide_row_is_cut(folder):
    row = {f"field_{n}": LOAF.format(n) for n in range(300)}
    (folder / "raw.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(5)))
    said = talk(folder, "chat", "raw.jsonl", "--mapper", "rules", lines="set text field_7\n")
    assert "more" in said.stdout or "lines)" in said.stdout
    assert len(said.stdout.splitlines()) < 120


def test_it_begins_with_a_mapping_that_is_there(folder):
    (folder / "m.json").write_text('{"version": 2, "text": "body"}')
    said = talk(folder, "chat", "raw.jsonl", "--mapping", "m.json", lines="set text title,...\n")
    assert "text  body -> title + body" in said.stdout


def test_text_from_the_data_draws_nothing(folder):
    (folder / "raw.jsonl").write_text(
        "".join(
            json.dumps({"id": n, "text[/]\x1b[31m": LOAF.format(n) + "\x1b]0;x\x07 [bold]"}) + "\n"
            for n in range(20)
        )
    )
    said = talk(folder, "chat", "raw.jsonl", lines="fields\nshow\nmapping\nwhy\nalternatives\n")
    assert said.exit_code == 0, said.stderr
    assert "\x1b" not in said.stdout + said.stderr
    assert "[bold]" in said.stdout


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ((), "say one of: SOURCE, --resume ID, --list, --forget ID"),
        (("raw.jsonl", "--list"), "say one of"),
        (("--resume", "nobody"), "there is no conversation 'nobody'"),
        (("--resume", "x", "--mode", "pt"), "--mode cannot be used with --resume"),
        (("--list", "--out", "x"), "--out cannot be used with --list"),
        (("",), "say one of"),
        (("--forget", "nobody"), "there is no conversation 'nobody'"),
    ],
)
def test_usage(folder, words, wrong):
    said = talk(folder, "chat", *words)
    assert said.exit_code == 2
    assert wrong in said.stderr


def test_a_source_that_is_not_there(folder):
    said = talk(folder, "chat", "nowhere.jsonl")
    assert said.exit_code == 1
    assert said.stderr.splitlines()[-1].startswith("error: nowhere.jsonl")


# --- at a terminal


@pytest.mark.more
def test_at_a_terminal_the_mapping_is_a_tree_and_edited(folder):
    editor = folder / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i \'s/"title",//\' "$1"\n')
    editor.chmod(0o755)
    surroundings = {"INGOT_HOME": str(folder / "home"), "EDITOR": str(editor)}
    terminal = Terminal(["chat", "raw.jsonl", "--out", "done"], folder, **surroundings)
    terminal.until("quit leaves")
    assert "├──" in terminal.shown
    terminal.type("edit\n")
    terminal.until("Changed")
    terminal.shown = ""
    terminal.type("set text title\n")
    terminal.until("Changed")
    terminal.type("ok\n")
    terminal.until("30 converted")
    terminal.type("quit\n")
    assert terminal.end() == 0
    assert "--resume" in terminal.shown
    assert (folder / "done" / "manifest.json").is_file()


@pytest.mark.more
def test_at_a_terminal_a_question_can_be_interrupted(folder, model):
    arrived = threading.Event()

    def silent(_):
        arrived.set()
        return 200, lambda handler: model.closing.wait(60)

    model.queue = [PROPOSED]
    model.always = silent
    environment = {**asked(model), "INGOT_HOME": str(folder / "home")}
    terminal = Terminal(["chat", "raw.jsonl"], folder, **environment)
    terminal.until("quit leaves")
    terminal.type("is anybody there?\n")
    assert arrived.wait(60)
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.until("the mapping is as it was")
    assert len(model.requests) == 2
    terminal.type("quit\n")
    assert terminal.end() == 0


@pytest.mark.more
def test_a_model_changes_a_mapping_under_review(folder, model):
    said = {"say": "Only the text.", "edits": [{"set": "text", "parts": ["body"]}]}
    model.queue = [PROPOSED, said]
    environment = {**asked(model), "INGOT_HOME": str(folder / "home")}
    words = ["run", "raw.jsonl", "--out", "done"]
    terminal = Terminal(words, folder, **environment)
    terminal.until("[y]es, [c]hat")
    terminal.type("c\n")
    terminal.until("returns to the review")
    terminal.type("leave the title out\n")
    terminal.until("Changed")
    terminal.shown = ""
    terminal.type("quit\n")
    terminal.until("[y]es, [c]hat")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "2 calls" in terminal.shown
    made = json.loads((folder / "done" / "mapping.json").read_text())
    assert made["text"] == "body"
    assert made["provenance"]["edited_with"]["model"] == "m"
    assert len(model.requests) == 2


@pytest.mark.more
def test_at_a_terminal_the_tab_key_completes_commands_and_fields(folder):
    rows = ({"id": n, "title": "t", "body": LOAF.format(n), "\x1b[2Jx": "y"} for n in range(30))
    (folder / "raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    terminal = Terminal(["chat", "raw.jsonl"], folder, INGOT_HOME=str(folder / "home"))
    terminal.until("quit leaves")
    terminal.until("> ")
    terminal.type("dr\t bo\t under 10\n")
    terminal.until("body has at least 10 characters")
    terminal.type("set te\t bod\t,\t\t")
    terminal.until("title")
    terminal.type("ti\t\n")
    terminal.until("body -> body + title")
    terminal.shown = ""
    terminal.type("set text \t\t")
    terminal.until("title")
    assert "\x1b[2J" not in terminal.shown
    terminal.type("\x15quit\n")
    assert terminal.end() == 0
