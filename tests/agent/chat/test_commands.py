import pytest

from ingot.agent.chat.commands import (
    COMMANDS,
    CommandSyntaxError,
    command_usages,
    parse_command,
)
from ingot.agent.chat.edits import apply_edits
from ingot.agent.chat.suggestions import suggest_commands
from ingot.agent.chat.typed_values import (
    ValueSyntaxError,
    parse_meta_value,
    parse_parts,
    parse_scalar,
    split_outside_quotes,
)
from ingot.converters import json_yaml
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.documents.writer import to_document, value_document

FIELDS = ("title", "body", "first name", "lang", "q", "a")
PT = {"version": 2, "text": ["body"], "where": [{"path": "ok", "in": [True]}]}
SFT = {
    "version": 2,
    "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
}
TURNS = {
    "version": 2,
    "messages": [
        {"each": "c[*]", "role": {"path": "r", "map": {"h": "user"}}, "content": "t"},
        {"role": "user", "content": "q"},
        {"role": "user", "content": "p"},
    ],
}
EITHER = {"version": 2, "any_of": [{"text": "a"}, SFT]}


def text(*found, alternative=None):
    return {"set": "text", "parts": list(found), "alternative": alternative}


def content(number, *found):
    return {"set": "content", "number": number, "parts": list(found), "alternative": None}


def where(*conditions):
    known = {"path": "ok", "op": "in", "values": [True]}
    where = [known, *conditions]
    return {"set": "where", "number": None, "where": where, "alternative": None}


LONG = {"path": "text", "op": "min_chars", "values": [5]}
WALK = {
    "version": 2,
    "messages": [
        {
            "each": "events[*]",
            "where": [{"path": "public", "not_in": [False]}, {"path": "text", "min_chars": 5}],
            "role": {"path": "who"},
            "content": "text",
        }
    ],
}
EDITS = [
    (PT, "set text title,body", text("title", "body")),
    (PT, "/set text title, body", text("title", "body")),
    (PT, "  SET text title,...  ", text("title", {"current": 0})),
    (PT, 'set text "Title: ",title', text({"literal": "Title: "}, "title")),
    (PT, "set text {{title}}: {{body}}", text({"template": "{{title}}: {{body}}", "each": []})),
    (PT, "set text title|body", text({"any_of": ["title", "body"]})),
    (PT, "set text first name", text("first name")),
    (PT, "set text ['a, b'],body", text("['a, b']", "body")),
    (EITHER, "set alternative 1 text title", text("title", alternative=1)),
    (SFT, "set user title,q", content(1, "title", "q")),
    (SFT, "set message 2 body", content(2, "body")),
    (
        SFT,
        "set assistant none",
        {"set": "message", "number": 2, "message": None, "alternative": None},
    ),
    (
        SFT,
        "set tool body",
        {
            "set": "message",
            "number": 3,
            "message": {
                "each": [],
                "where": [],
                "role": "tool",
                "content": ["body"],
                "loss_mask": None,
            },
            "alternative": None,
        },
    ),
    (
        {"version": 2, "messages": [SFT["messages"][1]]},
        "set user q",
        {
            "set": "messages",
            "messages": [
                {"each": [], "where": [], "role": "user", "content": ["q"], "loss_mask": None},
                {"current": 1},
            ],
            "alternative": None,
        },
    ),
    (
        SFT,
        'set system "Be kind."',
        {"set": "system", "parts": [{"literal": "Be kind."}], "alternative": None},
    ),
    (SFT, "set system none", {"set": "system", "parts": [], "alternative": None}),
    (PT, "set language lang", {"set": "meta", "key": "language", "value": "lang"}),
    (PT, "set language en", {"set": "meta", "key": "language", "value": {"literal": "en"}}),
    (PT, "set meta.source none", {"set": "meta", "key": "source", "value": None}),
    (PT, 'set source "the web"', {"set": "meta", "key": "source", "value": {"literal": "the web"}}),
    (PT, "set each qas[*]", {"set": "each", "path": "qas[*]", "alternative": None}),
    (PT, "set each none", {"set": "each", "path": None, "alternative": None}),
    (PT, "set root data[*]", {"set": "root", "path": "data[*]"}),
    (PT, "header row 3", {"set": "header_rows", "rows": [3]}),
    (PT, "header rows 3,4", {"set": "header_rows", "rows": [3, 4]}),
    (PT, "header row none", {"set": "header_rows", "rows": []}),
    (PT, 'read sheets A, "B, C"', {"set": "files", "read": ["A", "B, C"], "leave_out": []}),
    (PT, "read all", {"set": "files", "read": ["all"], "leave_out": []}),
    (PT, "leave out sheet Lookup", {"set": "files", "read": [], "leave_out": ["Lookup"]}),
    (PT, "leave out *.tsv", {"set": "files", "read": [], "leave_out": ["*.tsv"]}),
    (PT, "set group a,b sort turn", {"set": "group", "group": {"by": ["a", "b"], "sort": "turn"}}),
    (PT, "set group a", {"set": "group", "group": {"by": ["a"], "sort": None}}),
    (PT, "set group none", {"set": "group", "group": None}),
    (PT, "drop body under 20", where({"path": "body", "op": "min_chars", "values": [20]})),
    (PT, "drop body over 4000", where({"path": "body", "op": "max_chars", "values": [4000]})),
    (PT, "drop lang is de, null", where({"path": "lang", "op": "not_in", "values": ["de", None]})),
    (PT, 'keep q is 1,true,"1"', where({"path": "q", "op": "in", "values": [1, True, "1"]})),
    (PT, "drop first name is x", where({"path": "first name", "op": "not_in", "values": ["x"]})),
    (PT, "keep all", {"set": "where", "number": None, "where": [], "alternative": None}),
    (PT, "keep all ['ok']", {"set": "where", "number": None, "where": [], "alternative": None}),
    (PT, "keep all body", where()),
    (PT, "keep all is x", where({"path": "all", "op": "in", "values": ["x"]})),
    (WALK, "keep message all", {"set": "where", "number": 1, "where": [], "alternative": None}),
    (
        WALK,
        "keep message 1 all events[*].public",
        {"set": "where", "number": 1, "where": [LONG], "alternative": None},
    ),
    (SFT, "swap", {"set": "swap", "alternative": None}),
    (
        TURNS,
        "role b assistant",
        {"set": "role", "number": None, "value": "b", "role": "assistant", "alternative": None},
    ),
    (
        TURNS,
        'role "the bot" drop',
        {"set": "role", "number": None, "value": "the bot", "role": "drop", "alternative": None},
    ),
    (SFT, "train user on", {"set": "train", "number": 1, "mask": True, "alternative": None}),
    (SFT, "train message 2 off", {"set": "train", "number": 2, "mask": False, "alternative": None}),
    (
        SFT,
        "train assistant usual",
        {"set": "train", "number": 2, "mask": None, "alternative": None},
    ),
    (
        SFT,
        "train assistant w",
        {"set": "train", "number": 2, "mask": {"path": "w"}, "alternative": None},
    ),
]


@pytest.mark.parametrize(("mapping", "line", "edit"), EDITS, ids=[one[1] for one in EDITS])
def test_a_command_is_an_edit(mapping, line, edit):
    meant = parse_command(line, read_tree(mapping), FIELDS)
    assert meant.edits == (edit,)
    assert json_yaml.violations("chat", {"say": "", "edits": list(meant.edits)}) == []
    apply_edits(read_tree(mapping), meant.edits)


def test_swapping_swaps_every_alternative():
    both = read_tree({"version": 2, "any_of": [SFT, {"text": "x"}, SFT]})
    made = apply_edits(both, parse_command("swap", both, FIELDS).edits)
    contents = [[m.content.path.text for m in one.messages or ()] for one in made.any_of]
    assert contents == [["a", "q"], [], ["a", "q"]]


@pytest.mark.parametrize(
    ("line", "name", "number", "argument"),
    [
        ("undo", "undo", None, ""),
        ("show", "show", 3, ""),
        ("show 5", "show", 5, ""),
        ("take 2", "take", 2, ""),
        ("why", "why", None, ""),
        ("why text", "why", None, "text"),
        ("ok", "ok", None, ""),
        ("approve", "ok", None, ""),
        ("out data/x", "out", None, "data/x"),
        ('out "a b"', "out", None, "a b"),
        ("save m.json", "save", None, "m.json"),
        ("exit", "quit", None, ""),
        ("ok!", "ok", None, ""),
        ("undo.", "undo", None, ""),
    ],
)
def test_commands_that_change_nothing(line, name, number, argument):
    meant = parse_command(line, read_tree(PT), FIELDS)
    assert (meant.name, meant.number, meant.text, meant.edits) == (name, number, argument, ())


PLAIN = [
    "put the title in front",
    "the system prompt is in `persona`",
    "drop rows whose `answer` is under 20 characters",
    "why did you pick `abstract`?",
    "that is the rejected answer, use the other",
    "show me the rows that fail",
    "set the title in front of the body",
    "ok, but without the title",
    "undo that",
    "swap them please",
    "keep only the German ones",
    "take the second one",
    "out of these, use the first",
    "role of the bot is assistant now",
    "train only on the last answer",
    "set user to the question",
    "把标题放在前面",
    "什么?",
]


@pytest.mark.parametrize("line", PLAIN)
@pytest.mark.parametrize("mapping", [PT, SFT, TURNS], ids=["pt", "sft", "turns"])
def test_plain_language_is_no_command(line, mapping):
    with pytest.raises(CommandSyntaxError):
        parse_command(line, read_tree(mapping), FIELDS)


WRONG = [
    (PT, "set", "usage: set"),
    (PT, "set text", "name what to set"),
    (PT, "set nothing x", "cannot be set; what can be: text, user"),
    (PT, 'set text "open', '" is missing'),
    (PT, 'set text "a" b', "not a text in double quotes"),
    (PT, "set text a,,b", "a part is empty"),
    (PT, "set text a[0", "] is missing"),
    (PT, "set language a,b", "one field or one text"),
    (PT, "drop body under ten", "'ten' is not a number of characters"),
    (PT, "drop body", "one of the words under, over, is is missing"),
    (PT, "show x", "'x' is not a number"),
    (PT, "take", "'' is not a number"),
    (PT, "take 0", "not a number from 1"),
    (PT, "save", "type the name of a file"),
    (PT, "save it", "type the name of a file"),
    (PT, "out there", "type the name of a folder"),
    (TURNS, "role of gpt is assistant", "in double quotes if it has blanks"),
    (SFT, "set message 3 x", "'3' is not a number from 1 to 2"),
    (SFT, "train tool on", "the mapping has no tool message"),
    (TURNS, "set user x", "say message 2 or message 3"),
    (TURNS, "set assistant x", "roles are read from the data: say message 1"),
    (TURNS, "role b king", "one of user, assistant"),
    (EITHER, "set alternative 3 text x", "'3' is not a number from 1 to 2"),
]


@pytest.mark.parametrize(("mapping", "line", "why"), WRONG, ids=[one[1] for one in WRONG])
def test_what_is_nearly_a_command_says_how_it_is_written(mapping, line, why):
    with pytest.raises(CommandSyntaxError) as raised:
        parse_command(line, read_tree(mapping), FIELDS)
    assert raised.value.begins
    assert why in raised.value.why
    assert "usage: " in raised.value.why


def test_a_word_that_is_no_command():
    with pytest.raises(CommandSyntaxError) as raised:
        parse_command("hello there", read_tree(PT), FIELDS)
    assert not raised.value.begins


def test_help_names_every_command():
    told = dict(command_usages())
    assert len(told) == len(COMMANDS)
    assert all(usage.startswith(name) for name, usage in zip(COMMANDS, told, strict=True))


@pytest.mark.parametrize("name", ["ok", "quit"])
def test_help_in_a_review_says_that_nothing_is_approved_there(name):
    assert dict(command_usages())[name] == COMMANDS[name].does
    reviewed = dict(command_usages(under_review=True))
    assert list(reviewed) == list(dict(command_usages()))
    assert "return to the question" in reviewed[name]
    assert dict(command_usages(name, under_review=True)) == {name: reviewed[name]}


@pytest.mark.parametrize(
    ("typed", "pieces"),
    [
        ("a,b", ["a", "b"]),
        ("a , b", ["a", "b"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ('"a\\",b",c', ['"a\\",b"', "c"]),
        ("['a,b'],c", ["['a,b']", "c"]),
        ("it's,c", ["it's", "c"]),
        ("{{a,b}},c", ["{{a,b}}", "c"]),
        ("a[0],b[*].c", ["a[0]", "b[*].c"]),
    ],
)
def test_pieces(typed, pieces):
    assert list(split_outside_quotes(typed, ",")) == pieces


def test_scalars_are_typed_as_data_is():
    assert [parse_scalar(one) for one in ("1", "1.5", "true", "null", "x", '"1"', "[1]")] == [
        1,
        1.5,
        True,
        None,
        "x",
        "1",
        "[1]",
    ]


def test_nothing_is_no_part():
    assert parse_parts("none") == parse_parts("-") == []
    assert parse_meta_value("none", "source", FIELDS) is None


def test_a_literal_is_one_text():
    with pytest.raises(ValueSyntaxError, match="not a text in double quotes"):
        parse_parts('"a" b')


JSON_OF = {"map": [], "replace": [], "json": True, "html": False, "sep": None}


def test_a_list_or_an_object_is_typed_as_json():
    assert parse_parts("calls as json") == [{"path": "calls", **JSON_OF}]
    assert parse_parts("a|calls as json, b") == [
        {"any_of": ["a", {"path": "calls", **JSON_OF}]},
        "b",
    ]
    assert parse_parts("known as json_text") == ["known as json_text"]
    sft = read_tree(SFT)
    (made,) = parse_command("set tools t as json", sft, FIELDS).edits
    assert value_document(apply_edits(sft, [made]).outer.tools) == {"path": "t", "as": "json"}
    (made,) = parse_command("set user q text of html", sft, FIELDS).edits
    changed = to_document(apply_edits(sft, [made]))
    assert changed["messages"][0]["content"] == {"path": "q", "text_of": "html"}
    with pytest.raises(CommandSyntaxError, match="no field 'my calls'"):
        parse_command("set user my calls as json", sft, FIELDS)


@pytest.mark.parametrize(
    ("line", "fits", "misleads"),
    [
        ("please remove the html", "set TARGET VALUE", "No command"),
        ("strip all whitespace from the answers", "No command", "drop FIELD"),
        ("leave out the internal notes", "drop message where FIELD is A", "out DIR"),
        ("remove rows without an answer", "drop FIELD under", "No command"),
        ("remove the title", "set TARGET VALUE", "drop FIELD"),
        ("who is the speaker here", "role NAME", "drop FIELD"),
    ],
)
def test_a_line_that_is_no_command_names_the_nearest(line, fits, misleads):
    said = suggest_commands(line)
    assert fits in said
    assert misleads not in said
