import json
import sqlite3
import stat

import pytest

from ingot.agent.chat.conversation import FILE, ChatStore, Conversation, Step, Utterance
from ingot.agent.state import Order
from ingot.converters.errors import OutputError
from ingot.converters.json_yaml import encode


def conversation(id_="a", **given):
    step = Step(words="", by="rules", state={"proposal": None})
    return Conversation(id=id_, order=Order(source="data.jsonl"), steps=(step,), **given)


def test_a_conversation_is_kept_and_taken_up_by_another_process(tmp_path):
    chats = ChatStore(tmp_path)
    kept = conversation().heard(Utterance(who="you", text="你好", edits=({"set": "swap"},)))
    chats.keep(kept)
    chats.keep(kept.heard(Utterance(who="model", text="x")))
    other = ChatStore(tmp_path)
    assert other.load("a") == kept.heard(Utterance(who="model", text="x"))


def test_the_latest_comes_first_with_its_state(tmp_path):
    chats = ChatStore(tmp_path)
    chats.keep(conversation("a"))
    chats.keep(conversation("b"))
    chats.keep(conversation("a", done="out"))
    assert [(one.id, one.state, one.source) for one in chats.listed()] == [
        ("a", "converted", "data.jsonl"),
        ("b", "open", "data.jsonl"),
    ]


def test_two_processes_do_not_overwrite_each_other(tmp_path):
    one, other = ChatStore(tmp_path), ChatStore(tmp_path)
    one.keep(conversation())
    taken = other.load("a")
    other.keep(taken.heard(Utterance(who="you", text="x")))
    with pytest.raises(OutputError, match="another process has continued"):
        one.keep(conversation())
    assert len(ChatStore(tmp_path).load("a").said) == 1


def test_a_new_conversation_takes_no_other_ones_place(tmp_path):
    ChatStore(tmp_path).keep(conversation())
    with pytest.raises(OutputError, match="another process has continued"):
        ChatStore(tmp_path).keep(conversation())


@pytest.mark.parametrize("document", ["{", "[]", '{"form": 99}', '{"form": 1}'])
def test_what_cannot_be_read_is_no_conversation(tmp_path, document):
    chats = ChatStore(tmp_path)
    chats.keep(conversation())
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE chats SET document=?", (document,))
    connection.close()
    with pytest.raises(KeyError):
        ChatStore(tmp_path).load("a")


def test_it_is_forgotten_without_a_trace(tmp_path):
    chats = ChatStore(tmp_path)
    chats.keep(conversation().heard(Utterance(who="you", text="mein Geheimnis")))
    chats.forget("a")
    chats.forget("a")
    assert chats.listed() == []
    assert b"Geheimnis" not in (tmp_path / FILE).read_bytes()


def test_the_file_is_its_owners_alone(tmp_path):
    ChatStore(tmp_path).keep(conversation())
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_identifiers_are_new(tmp_path):
    chats = ChatStore(tmp_path)
    ids = set()
    for _ in range(20):
        id_ = chats.new_id()
        assert id_ not in ids
        ids.add(id_)
        chats.keep(conversation(id_))


def test_moves_keep_to_the_steps():
    talk = conversation()
    assert talk.moved(-1) is None
    more = talk.with_step(Step(words="x", by="you", state={"proposal": None}))
    assert more.moved(1) is None
    back = more.moved(-1)
    assert back is not None
    assert back.with_step(more.steps[1]).steps == more.steps
    assert json.loads(json.dumps(encode(back)))["at"] == 0
