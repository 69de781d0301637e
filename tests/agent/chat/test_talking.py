import json
from dataclasses import replace

import pytest

from ingot.agent.chat.commands import parse_command
from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.operations import (
    change_mapping,
    conclude_conversation,
    convert_conversation,
    difference_lines,
    match_states,
    recheck_conversation,
)
from ingot.agent.context import Context
from ingot.agent.judging.problem_words import told_problems
from ingot.agent.model.budget import estimate_tokens
from ingot.agent.reporting.preview import preview
from ingot.converters.json_yaml import decode, encode
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.documents.writer import to_document
from tests.agent.chat.conftest import ANSWERS, STAPLES, Talk
from tests.agent.documents import document
from tests.conftest import first_more

# --- without a model


@pytest.mark.more
def test_it_begins_with_what_the_rules_propose_stage_by_stage(offline):
    talk = offline(STAPLES)
    told = [one for one in talk.stages if one in ("discover", "sample", "propose", "validate")]
    assert told == ["discover", "sample", "propose", "validate"]
    assert document(talk.now.mapping)["text"] == ["title", "body"]
    assert talk.now.state["check"].ok_rows == 40
    assert talk.now.steps[0].by == "rules"


def test_a_change_is_checked_on_the_sample_before_it_is_shown(offline):
    talk = offline(STAPLES)
    told = talk("set text body")
    assert told.show == ("changes",)
    assert document(told.before.mapping)["text"] == ["title", "body"]
    assert document(talk.now.mapping)["text"] == "body"
    assert talk.now.state["check"].rows == 40
    proposal = talk.now.state["proposal"]
    assert proposal.mapper == "edited"
    assert document(proposal.mapping)["provenance"]["edited"] is True
    assert document(proposal.mapping)["provenance"]["mapper"] == "rules"


@pytest.mark.more
def test_a_misspelt_field_changes_nothing_and_names_the_nearest(offline):
    talk = offline(STAPLES)
    told = talk("set text titel,body")
    assert told.show == ()
    (problem,) = told.problems
    assert (problem.code, problem.got, problem.nearest) == ("unresolved_path", "titel", "title")
    assert document(talk.now.mapping)["text"] == ["title", "body"]
    assert talk.now.at == 0


@pytest.mark.more
def test_rows_are_left_out_by_length_and_by_value(offline):
    talk = offline(STAPLES)
    talk("drop kind is draft")
    assert talk.now.state["check"].failures == {"filtered": 14}
    talk("drop body under 20")
    assert document(talk.now.mapping)["where"] == [
        {"path": "kind", "not_in": ["draft"]},
        {"path": "body", "min_chars": 20},
    ]
    talk("keep all")
    assert "where" not in document(talk.now.mapping)


@pytest.mark.more
def test_undo_and_redo_walk_over_the_mappings(offline):
    talk = offline(STAPLES)
    first = talk.now.mapping
    assert talk("undo").say == "This is the first mapping already."
    talk("set text body")
    second = talk.now.mapping
    talk("set text title")
    talk("undo")
    assert talk.now.mapping == second
    talk("undo")
    assert talk.now.mapping == first
    talk("redo")
    assert talk.now.mapping == second
    talk("set language de")
    assert talk("redo").say == "This is the last mapping already."
    assert document(talk.now.mapping)["meta"]["language"] == {"literal": "de"}


@pytest.mark.more
def test_what_is_half_done_is_made_and_does_not_pass_yet(offline):
    talk = offline(STAPLES, mode="pt")
    talk("set user title")
    assert talk.now.state["problems"]
    assert "does not pass yet" in talk("ok").say
    talk("set assistant body")
    assert talk.now.state["problems"] == ()
    assert talk.now.state["proposal"].decision == "sft"


@pytest.mark.more
def test_sides_are_swapped(offline):
    talk = offline(ANSWERS)
    contents = [one["content"] for one in document(talk.now.mapping)["messages"]]
    talk("swap")
    assert [one["content"] for one in document(talk.now.mapping)["messages"]] == contents[::-1]


@pytest.mark.more
def test_other_mappings_are_shown_and_one_is_taken(offline):
    talk = offline(STAPLES)
    told = talk("alternatives")
    assert told.others
    for one in told.others:
        bind(to_document(one.mapping), None, where="m")
        assert one.mapping != talk.now.mapping
    talk("take 1")
    assert talk.now.mapping == told.others[0].mapping
    assert "no alternative 90" in talk("take 90").say


@pytest.mark.more
def test_what_says_nothing_new_makes_no_step(offline):
    talk = offline(STAPLES)
    assert talk("set text title,body").say == "That is what the mapping says already."
    assert len(talk.now.steps) == 1


@pytest.mark.more
@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("put the title in front", "These may fit: set TARGET VALUE; help set lists"),
        ("make the speaker the user please", "role NAME user|assistant|system|tool|drop"),
        ("what is this", "help lists the commands, fields the fields of the data"),
        ("shows 3", "Did you mean: show [N]?"),
        ("set the title in front", "cannot be set"),
        ("/nonsense", "there is no command 'nonsense'"),
    ],
)
def test_plain_language_needs_a_model(offline, line, hint):
    talk = offline(STAPLES)
    assert hint in talk(line).say
    assert talk.now.at == 0


@pytest.mark.more
def test_a_sentence_is_not_taken_for_a_command_that_sounds_like_it(offline):
    talk = offline(STAPLES)
    assert "take N" not in talk("make it shorter and more formal please").say
    assert talk("what now?").say.startswith("No model is configured, so only short commands")
    talk = offline(STAPLES, mapper="rules")
    assert talk("what now?").say.startswith("The mapper is rules and no model is asked, so only")


TALKS = [
    {
        "id": f"c{n}",
        "scene": f"A table for {n} is booked",
        "turns": [
            {"who": ("Ann", "Bob")[place % 2], "text": f"This is line {place} of talk {n}."}
            for place in range(4)
        ],
    }
    for n in range(30)
]


def roles_of(talk):
    _, record = preview(talk.now.state, talk.context.readings, examples=1).examples[0]
    return [(one["role"], one["content"]) for one in record.json["messages"]]


@pytest.mark.more
def test_a_list_of_messages_is_set_with_its_speakers(offline):
    talk = offline(TALKS, mode="pt", mapper="rules")
    told = talk("set messages turns speaker=who text=text")
    assert told.show == ("changes",)
    assert document(talk.now.mapping)["messages"] == [
        {"each": "turns[*]", "role": {"path": "who"}, "content": "text"}
    ]
    assert "Ann" in str(talk.now.state["problems"])
    talk("role Ann user")
    talk("role Bob assistant")
    assert talk.now.state["problems"] == ()
    assert roles_of(talk)[:2] == [
        ("user", "This is line 0 of talk 0."),
        ("assistant", "This is line 1 of talk 0."),
    ]


TICKETS = [
    {
        "id": n,
        "subject": f"Printer number {n} makes no sound",
        "events": [
            {"by": ("customer", "agent")[k % 2], "public": k != 2, "body": f"Line {k} of case {n}."}
            for k in range(5)
        ],
    }
    for n in range(30)
]


@pytest.mark.more
def test_single_messages_are_left_out_by_a_field_of_theirs(offline):
    talk = offline(TICKETS, mapper="rules")
    talk("set messages events speaker=by text=body roles=customer:user,agent:assistant")
    talk("keep all")
    told = talk("drop events[*].public is false")
    assert told.show != ("changes",)
    (problem,) = told.problems
    assert problem.command == "drop message where public is false"
    assert "only the first would be tested" in problem.words
    assert "where" not in document(talk.now.mapping)
    for line in ("drop message where public is false", "drop message 1 where by is nobody"):
        assert talk(line).show == ("changes",)
    assert document(talk.now.mapping)["messages"][0]["where"] == [
        {"path": "public", "not_in": [False]},
        {"path": "by", "not_in": ["nobody"]},
    ]
    assert [text[:6] for _, text in roles_of(talk)] == ["Line 0", "Line 1", "Line 3", "Line 4"]
    talk("undo")
    assert talk("keep message where events[*].public is true").show == ("changes",)


@pytest.mark.more
@pytest.mark.parametrize("key", ["talks", "pages.all"])
def test_speakers_are_named_where_the_rows_lie_below_a_root(tmp_path, key):
    whole = {"pages": {"all": TALKS}} if "." in key else {"talks": TALKS, "next": None}
    (tmp_path / "a.json").write_text(json.dumps(whole))
    talk = Talk(tmp_path / "a.json", mapper="rules")
    talk("set messages turns speaker=who text=text")
    assert document(talk.now.mapping)["source"]["root"] == f"{key}[*]"
    for line in ("role Ann user", "role Bob assistant", "drop id is c1"):
        assert talk(line).show == ("changes",)
    assert document(talk.now.mapping)["where"] == [{"path": "id", "not_in": ["c1"]}]
    assert [role for role, _ in roles_of(talk)][:2] == ["user", "assistant"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("roles", "first"),
    [
        ("speaker=who text=text roles=Ann:assistant,Bob:user", ["assistant", "user"]),
        ("speaker=who text=text roles=user,assistant", ["user", "assistant"]),
        ("text=text", ["user", "assistant"]),
        ("text=text roles=assistant,user", ["assistant", "user"]),
    ],
)
def test_roles_are_set_with_the_list(offline, roles, first):
    talk = offline(TALKS, mode="pt", mapper="rules")
    talk(f"set messages turns[*] {roles}")
    assert [role for role, _ in roles_of(talk)][:2] == first


@pytest.mark.more
@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("human", "gpt"), {"human": "user", "gpt": "assistant"}),
        (("user", "assistant"), None),
        (("Ann", "Bot"), {"Bot": "assistant"}),
    ],
)
def test_names_that_say_their_role_have_it(offline, names, wanted):
    values = [
        {**one, "turns": [{**t, "who": names[k % 2]} for k, t in enumerate(one["turns"])]}
        for one in TALKS
    ]
    talk = offline(values)
    talk("set text scene")
    talk("set messages turns speaker=who text=text")
    assert document(talk.now.mapping)["messages"][0]["role"].get("map") == wanted


@pytest.mark.more
def test_a_record_per_message_becomes_a_conversation_again(offline):
    talk = offline(TALKS)
    talk("set text scene")
    talk("set each turns[*]")
    talk("set text text")
    talk("set original_id ^.id")
    talk("drop text under 3")
    told = talk("set messages turns speaker=who text=text roles=Ann:user,Bob:assistant")
    assert told.show == ("changes",)
    mapping = document(talk.now.mapping)
    assert "each" not in mapping
    assert "where" not in mapping
    assert mapping["meta"]["original_id"] == "id"
    assert mapping["messages"][0]["where"] == [{"path": "text", "min_chars": 3}]
    assert talk.now.state["problems"] == ()
    assert len(roles_of(talk)) == 4


@pytest.mark.more
def test_a_list_in_quotes_is_a_list_and_what_is_no_path_is_a_problem(offline):
    talk = offline(TALKS)
    talk('set messages "turns" speaker="who" text=text roles=Ann:user,Bob:assistant')
    assert (document(talk.now.mapping)["messages"][0]["each"], len(roles_of(talk))) == (
        "turns[*]",
        4,
    )
    before = talk.now.mapping
    (problem,) = talk("set messages a..b speaker=who text=text").problems
    assert (problem.code, talk.now.mapping) == ("bad_path", before)


@pytest.mark.more
def test_a_misspelt_field_of_a_list_changes_nothing(offline):
    talk = offline(TALKS)
    before = talk.now.mapping
    (problem,) = talk("set messages turns speaker=woh text=text roles=user,assistant").problems
    assert problem.nearest.endswith("who")
    assert talk.now.mapping == before


LINES = [
    {"talk": n // 4, "turn": n % 4, "who": ("Ann", "Bob")[n % 2], "text": f"Line {n} is said."}
    for n in range(120)
]


@pytest.mark.more
def test_grouping_rewrites_the_paths_below(offline):
    talk = offline(LINES, mapper="rules")
    talk("set group none")
    talk("set text text")
    talk("set original_id talk")
    told = talk("set group talk sort turn")
    assert told.problems == ()
    assert document(talk.now.mapping)["text"] == "[*].text"
    assert document(talk.now.mapping)["meta"]["original_id"] == "[0].talk"
    assert talk.now.state["problems"] == ()
    talk("set text {{[*].who}}: {{[*].text}}")
    made = {"template": "{{who}}: {{text}}", "each": "[*]"}
    assert document(talk.now.mapping)["text"] == made
    _, record = preview(talk.now.state, talk.context.readings, examples=1).examples[0]
    assert record.json["text"].splitlines()[0].partition(": ")[0] in ("Ann", "Bob")
    talk("set messages [*] speaker=who text=text roles=Ann:user,Bob:assistant")
    assert talk.now.state["problems"] == ()
    talk("set group none")
    assert document(talk.now.mapping)["messages"][0] == {
        "role": {"path": "who", "map": {"Ann": "user", "Bob": "assistant"}},
        "content": "text",
    }
    assert document(talk.now.mapping)["meta"]["original_id"] == "talk"


@pytest.mark.more
def test_why_is_answered_from_the_evidence_without_a_model(offline):
    told = offline(STAPLES)("why did you pick `body`?")
    assert (told.show, told.text) == (("why",), "why did you pick `body`?")


@pytest.mark.more
def test_approving_needs_a_place(offline, tmp_path):
    talk = offline(STAPLES)
    assert talk("ok").say == "No output folder is set. Type: out DIR"
    talk(f"out {tmp_path / 'o'}")
    told = talk("ok")
    assert told.do == "convert"
    state = convert_conversation(told.conversation, talk.context)
    assert state["outcome"].status == "done"
    assert state["outcome"].result.manifest.records["written"] == 40
    assert json.loads((tmp_path / "o" / "mapping.json").read_text())["text"] == ["title", "body"]


def test_a_set_that_the_rules_cannot_map_is_mapped_by_hand(offline, tmp_path):
    values = [{"n": number, "t": f"{number} und mehr"} for number in range(30)]
    talk = offline(values, out=str(tmp_path / "o"))
    assert talk.now.state["proposal"].decision in ("irrelevant", "unmappable")
    talk("set text t")
    assert talk("ok").do == "convert"
    state = convert_conversation(talk.now, talk.context)
    assert state["outcome"].result.manifest.records["written"] == 30


@pytest.mark.more
def test_a_conversation_is_plain_json_without_rows(offline):
    talk = offline(STAPLES)
    talk("set text body")
    text = json.dumps(encode(talk.now))
    assert "doubled" not in text
    again = decode(Conversation, json.loads(text))
    assert again == talk.now
    assert recheck_conversation(again, Context()).mapping == talk.now.mapping


@pytest.mark.more
def test_data_that_has_changed_is_noticed_when_it_goes_on(rows):
    talk = Talk(rows("data", STAPLES))
    talk("set text body")
    rows("data", [{"id": 1, "text": "other"}] * 5)
    now = recheck_conversation(talk.now, Context())
    assert [one.code for one in now.state["problems"]][:1] == ["unresolved_path"]


@pytest.mark.more
def test_values_are_those_of_the_data_however_they_are_typed(offline):
    values = [{**one, "label": str(n % 2), "stars": n % 3} for n, one in enumerate(STAPLES)]
    talk = offline(values)
    talk("keep label is 1")
    talk('drop stars is "2"')
    assert document(talk.now.mapping)["where"] == [
        {"path": "label", "in": ["1"]},
        {"path": "stars", "not_in": [2]},
    ]
    talk("keep kind is nowhere")
    assert talk.now.state["check"].records == 0
    assert "does not pass yet" in talk("ok").say


@pytest.mark.more
def test_conditions_on_lookups_stay_beside_new_ones(offline):
    writers = [{"name": "a", "known": True}, {"name": "b", "known": False}]
    values = [{**one, "by": "ab"[n % 2], "writers": writers} for n, one in enumerate(STAPLES)]
    found = {"lookup": "writers[*]", "key": "name", "of": "by", "take": "known"}
    known = {"path": found, "in": [True]}
    mapping = {"version": 2, "text": "body", "where": [known]}
    talk = offline(values, mapping=read_tree(mapping), mapping_file="m.json")
    assert talk.now.state["check"].failures == {"filtered": 20}
    talk("drop kind is draft")
    assert document(talk.now.mapping)["where"] == [known, {"path": "kind", "not_in": ["draft"]}]


@pytest.mark.more
def test_undo_on_data_that_has_changed_checks_anew(rows):
    talk = Talk(rows("data", STAPLES))
    talk("set text title")
    rows("data", [{**one, "body": None} for one in STAPLES])
    talk.context = Context()
    talk("undo")
    talk("drop body under 3")
    assert talk.now.state["check"].records == 0


def test_a_wrong_part_stays_until_it_is_mended(offline):
    talk = offline(STAPLES)
    proposal = talk.now.state["proposal"]
    wrong = {**document(proposal.mapping), "where": [{"path": "kind", "no_operator": 1}]}
    state = {**talk.now.state, "proposal": replace(proposal, mapping=read_tree(wrong))}
    (language,) = parse_command("set language de", read_tree(wrong), ()).edits
    made = change_mapping(state, [language], talk.context)
    assert document(made["proposal"].mapping)["where"] == wrong["where"]
    assert document(made["proposal"].mapping)["meta"]["language"] == {"literal": "de"}
    assert made["problems"][0].pointer == "/where/0/no_operator"
    (mended,) = parse_command("drop body under 20", read_tree(wrong), ("body",)).edits
    assert change_mapping(state, [mended], talk.context)["problems"] == ()


@pytest.mark.more
def test_nothing_is_before_what_is_not_there(offline):
    talk = offline(ANSWERS)
    before = talk.now.mapping
    (problem,) = talk("set text persona,...").problems
    assert (problem.expected, problem.got) == ("something that is there already", "nothing")
    assert talk.now.mapping == before


@pytest.mark.more
def test_where_rows_begin_may_be_set_before_the_texts(offline):
    values = [{"id": n, "parts": [{"t": one["body"]}]} for n, one in enumerate(STAPLES)]
    talk = offline(values)
    talk("set each parts[*]")
    assert talk.now.state["problems"]
    talk("set text t")
    assert "/text" not in str(talk.now.state["problems"])
    assert document(talk.now.mapping)["each"] == "parts[*]"


@pytest.mark.more
def test_a_speaker_has_to_be_one_of_the_data(offline):
    turns = [{"from": "human", "value": "Hi there"}, {"from": "gpt", "value": "Hello, you"}]
    talk = offline([{"id": n, "conversations": turns} for n in range(20)])
    (problem,) = talk("role gtp assistant").problems
    assert problem.nearest == "gpt"
    assert "'human', 'gpt'" in problem.got
    assert talk("role gpt user").show == ("changes",)


@pytest.mark.more
def test_a_condition_stands_once(offline):
    talk = offline(STAPLES)
    talk("drop body under 3")
    assert talk("drop body under 3").say == "That is what the mapping says already."


@pytest.mark.more
def test_what_is_secret_for_its_key_is_hidden_in_the_effect(offline):
    values = [{**one, "password": f"hunter{n}abcd"} for n, one in enumerate(STAPLES)]
    talk = offline(values)
    told = talk("set text title,password")
    found = match_states(told.before.state, talk.now.state, talk.context)
    lines = difference_lines(found.differences[0], talk.context.data.redactor)
    assert any("bread" in line for line in lines)
    assert "hunter" not in "".join(lines)


# --- with a model


def text(*parts):
    return {"set": "text", "parts": list(parts), "alternative": None}


@pytest.mark.more
def test_plain_language_becomes_edits_that_are_applied_by_code(online, chat):
    talk = online(STAPLES)
    chat.queue = [{"say": "I take the body alone.", "edits": [text("body")]}]
    told = talk("leave the title out")
    assert told.heard == "".join(one for one in talk.heard if one) == "I take the body alone."
    assert told.show == ("changes",)
    assert document(talk.now.mapping)["text"] == "body"
    assert talk.now.steps[1].by == "model"
    provenance = document(talk.now.state["proposal"].mapping)["provenance"]
    assert provenance["edited_with"]["model"] == "m"
    assert len(provenance["edited_with"]["prompt_sha256"]) == 64
    assert talk.now.usage.calls == 1
    (request,) = chat.requests
    assert request["messages"][-1]["content"].endswith("The person says: leave the title out\n")


@pytest.mark.more
def test_it_is_told_the_mapping_by_numbers_and_why(online, chat):
    talk = online(STAPLES)
    chat.queue = [{"say": "Because.", "edits": []}]
    talk("why did you pick `body`?")
    said = chat.requests[0]["messages"][-1]["content"]
    for wanted in ("part 1: title (found in 40/40 rows)", "part 2: body", "Why text", "Record: {"):
        assert wanted in said


@pytest.mark.more
def test_a_question_changes_nothing(online, chat):
    talk = online(STAPLES)
    chat.queue = [{"say": "It is the longest text.", "edits": []}]
    told = talk("why the body?")
    assert (told.show, told.before) == ((), None)
    assert [one.text for one in talk.now.said] == ["why the body?", "It is the longest text."]


@pytest.mark.more
def test_it_remembers_what_was_said(online, chat):
    talk = online(STAPLES)
    chat.queue = [
        {"say": "The body alone.", "edits": [text("body")]},
        {"say": "Both again.", "edits": [text("title", {"current": 1})]},
    ]
    talk("only the body")
    talk("no, with the title")
    roles = [one["role"] for one in chat.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "only the body" in chat.requests[1]["messages"][3]["content"]
    assert json.loads(chat.requests[1]["messages"][4]["content"])["edits"] == [text("body")]
    assert document(talk.now.mapping)["text"] == ["title", "body"]


@pytest.mark.more
def test_edits_that_do_not_pass_go_back_and_are_never_shown(online, chat):
    talk = online(STAPLES)
    chat.queue = [
        {"say": "I take the headline.", "edits": [text("headline")]},
        {"say": "I take the title.", "edits": [text("title")]},
    ]
    told = talk("take the headline")
    assert told.heard == "I take the title."
    assert None in talk.heard
    assert document(talk.now.mapping)["text"] == "title"
    assert len(talk.now.steps) == 2
    back = chat.requests[1]["messages"][-1]["content"]
    assert "headline" in back
    assert "nearest: title" in back or "title" in back


@pytest.mark.more
def test_after_three_answers_it_is_left(online, chat):
    talk = online(STAPLES)
    chat.always = {"say": "Done!", "edits": [text("nowhere")]}
    told = talk("take it from nowhere")
    assert len(chat.requests) == 3
    assert told.problems[0].code == "unresolved_path"
    assert talk.now.at == 0


@pytest.mark.more
@pytest.mark.parametrize(
    "reply",
    [
        "I will put the title in front.",
        '{"say": "x", "edits": [{"set": "code", "python": "1"}]}',
        '{"say": "x", "edits": [{"set": "text", "parts": [{"current": 9}]}]}',
        '{"say": "x", "edits": "title"}',
    ],
)
def test_replies_that_are_none_are_asked_again(online, chat, reply):
    talk = online(STAPLES)
    chat.queue = [reply, {"say": "Only the title.", "edits": [text("title")]}]
    assert talk("only the title please").heard == "Only the title."
    assert len(chat.requests) == 2


@pytest.mark.more
def test_what_is_wrong_with_an_edit_is_said_by_its_kind(online, chat):
    talk = online(STAPLES)
    wrong = [
        {"set": "text", "parts": "title", "alternative": "one"},
        {"set": "python", "code": "1"},
        {"set": "content", "parts": ["body"]},
    ]
    chat.queue = [{"say": "x", "edits": wrong}, {"say": "y", "edits": []}]
    talk("do something")
    back = chat.requests[1]["messages"][-1]["content"]
    assert "/edits/0/alternative: schema: expected the type integer or null" in back
    assert "/edits/1/set: schema: expected one of text, system, tools, messages" in back
    assert "/edits/2/number: schema: expected the type integer" in back


@pytest.mark.more
def test_null_keys_that_a_kind_has_not_are_no_fault(online, chat):
    talk = online(STAPLES)
    edit = {"set": "meta", "key": "original_id", "value": None, "alternative": None}
    chat.queue = [{"say": "x", "edits": [edit]}]
    talk("no id")
    assert "original_id" not in document(talk.now.mapping)["meta"]


@pytest.mark.more
def test_nullable_keys_may_be_left_out(online, chat):
    talk = online(ANSWERS)
    chat.queue = [
        '```json\n{"say": "ok", "edits": [{"set": "content", "number": 2, "parts": ["rejected"]}, '
        '{"set": "message", "number": 3, "message": {"role": "user", "content": "persona"}}]}\n```'
    ]
    talk("that is the wrong one")
    assert [one["content"] for one in document(talk.now.mapping)["messages"][1:]] == [
        "rejected",
        "persona",
    ]


@pytest.mark.more
@pytest.mark.parametrize(
    "line", ["drop what is under 20", "set language english", "set text headline", "save it"]
)
def test_what_looks_like_a_command_and_fits_nothing_goes_to_the_model(online, chat, line):
    talk = online(STAPLES)
    chat.queue = [{"say": "Which one?", "edits": []}]
    assert talk(line).heard == "Which one?"
    assert len(chat.requests) == 1
    assert talk(f"/{line}").heard == ""
    assert len(chat.requests) == 1


@pytest.mark.more
def test_turns_alternate_whatever_was_typed(online, chat):
    talk = online(STAPLES)
    talk("set text body")
    talk("drop body under 3")
    chat.queue = [(500, {}), (500, {}), (500, {}), (500, {}), (500, {})]
    chat.always = (400, {"error": {"message": "no"}})
    talk("what now?")
    chat.queue, chat.always, chat.requests = [], {"say": "ok", "edits": []}, []
    talk("and now?")
    talk("and then?")
    roles = [one["role"] for one in chat.requests[-1]["messages"]]
    assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"]
    assert "what now?" not in str(chat.requests)


@pytest.mark.more
@pytest.mark.parametrize("tokens", first_more([4000, 2000, 8000]))
def test_a_question_keeps_to_its_size(online, chat, tokens):
    wide = [
        {**one, **{f"field_{n}": f"{one['body']} {n}" for n in range(24)}} for one in STAPLES[:12]
    ]
    talk = online(wide, prompt_tokens=tokens, mapper="rules")
    chat.always = {"say": "It is as it is. " * 20, "edits": []}
    for number in range(4):
        talk(f"question {number}: what is in field_{number}?")
    for request in chat.requests:
        assert sum(estimate_tokens(one["content"]) for one in request["messages"]) <= tokens
        assert "field_" in request["messages"][1]["content"]


@pytest.mark.more
def test_an_answer_that_is_not_json_is_told_as_that(online, chat):
    talk = online(STAPLES, mode="pt")
    before = talk.now.mapping
    chat.always = "I would put the title first."
    told = talk("put it in front")
    assert "was not JSON" in told.say
    assert told.problems == ()
    assert talk.now.mapping == before


CALLS = [
    {
        "id": f"r{number}",
        "asked": f"When does train number {number} leave from its platform today?",
        "call": {"name": "timetable", "train": number},
        "tools": [{"name": "timetable"}],
        "stops": ["Ems", "Aar"],
    }
    for number in range(20)
]


@pytest.mark.more
def test_objects_become_json_and_lists_texts_by_the_command_that_the_problem_names(offline):
    talk = offline(CALLS, mapper="rules", mode="sft")
    talk("set user asked")
    talk("set assistant call")
    problems = talk.now.state["problems"]
    assert [one.command for one in problems][:1] == ["set assistant call as json"]
    assert talk(problems[0].command).show == ("changes",)
    assert talk.now.state["problems"] == ()
    assert roles_of(talk)[1] == ("assistant", '{"name": "timetable", "train": 0}')
    talk("set tools tools as json")
    assert document(talk.now.mapping)["tools"] == {"path": "tools", "as": "json"}
    talk("set user asked,stops")
    (problem,) = [one for one in talk.now.state["problems"] if one.code == "not_text"]
    assert problem.command == "set user asked,stops[*]"
    talk(problem.command)
    assert roles_of(talk)[0][1].endswith("\nEms\nAar")


@pytest.mark.more
def test_a_speaker_without_a_role_is_solved_by_the_command_that_is_named(offline):
    talk = offline(TICKETS, mapper="rules")
    talk("set messages events speaker=by text=body roles=agent:assistant")
    (problem,) = told_problems(talk.now.state["problems"])
    assert "'customer'" in problem.words
    assert problem.command == "role customer user"
    assert talk(problem.command).show == ("changes",)
    (wrong,) = talk("role custmer user").problems
    assert wrong.words.startswith("No speaker of the data is called 'custmer'")
    assert wrong.command == "role customer user"


@pytest.mark.more
def test_the_id_of_the_rows_takes_the_place_of_their_number(tmp_path):
    body = "Ticket {} is about a door that does not close."
    rows = [{"id": f"t{number}", "body": body.format(number)} for number in range(9)]
    (tmp_path / "a.json").write_text(json.dumps({"tickets": rows, "next": None}))
    talk = Talk(tmp_path / "a.json", mapper="rules")
    talk("set root none")
    talk("set text tickets[*].body")
    talk("set original_id ~")
    talk("set root tickets[*]")
    assert document(talk.now.mapping)["meta"]["original_id"] == "id"


@pytest.mark.more
def test_edits_that_mend_nothing_are_not_made(online, chat):
    talk = online(STAPLES, mode="pt")
    talk("set user title")
    before = talk.now.mapping
    chat.always = {"say": "Done.", "edits": [{"set": "content", "number": 1, "parts": ["nowhere"]}]}
    told = talk("take it from nowhere")
    assert "do not pass" in told.say
    assert talk.now.mapping == before
    assert all(one.edits == () for one in talk.now.said)


@pytest.mark.more
def test_an_endpoint_that_is_gone_leaves_the_commands(online, chat):
    talk = online(STAPLES)
    chat.always = (401, {"error": {"message": "no such key"}})
    told = talk("put the body in front")
    assert "gave no answer" in told.say
    assert "short commands" in told.say
    assert talk("set text body,title").show == ("changes",)


@pytest.mark.more
def test_secrets_stay_on_the_machine(online, chat):
    values = [{**one, "body": f"{one['body']} Write to ann.lee@example.org."} for one in STAPLES]
    talk = online(values)
    chat.queue = [{"say": "ok", "edits": []}]
    talk("is bob.roe@example.org in there?")
    sent = json.dumps(chat.requests)
    assert "ann.lee@example.org" not in sent
    assert "bob.roe@example.org" not in sent
    assert "[email]" in sent
    assert "bob.roe" not in json.dumps(encode(talk.now))


@pytest.mark.more
def test_rows_cannot_talk_the_model_into_converting(online, chat):
    talk = online(STAPLES)
    chat.always = {"say": "ok", "edits": [], "do": "convert"}
    told = talk("what is in there?")
    assert told.do == ""


@pytest.mark.more
def test_texts_of_json_are_parsed_for_a_path_into_them(online, chat):
    values = [
        {"id": n, "payload": json.dumps({"head": f"Bread {n}", "story": STAPLES[n]["body"]})}
        for n in range(30)
    ]
    talk = online(values)
    chat.queue = [{"say": "ok", "edits": [text("payload.head", "payload.story")]}]
    talk("head and story, please")
    assert document(talk.now.mapping)["source"] == {"json_fields": ["payload"]}
    assert talk.now.state["problems"] == ()


@pytest.mark.more
@pytest.mark.parametrize(
    "edit",
    [
        {"set": "content", "number": 2.0, "parts": ["rejected"]},
        {"set": "content", "number": 2, "parts": [{"current": 1.0}, "rejected"]},
        {"set": "where", "where": [{"path": "chosen", "op": "min_chars", "values": [20.0]}]},
    ],
)
def test_whole_numbers_are_whole_however_they_are_spelt(online, chat, edit):
    talk = online(ANSWERS)
    chat.queue = [{"say": "ok", "edits": [edit]}]
    talk("do it")
    assert len(chat.requests) == 1
    assert talk.now.at == 1


@pytest.mark.more
@pytest.mark.parametrize("number", ["1e999", "1e300", "-1", "99999999999999999999999"])
def test_numbers_that_are_none_go_back(online, chat, number):
    talk = online(STAPLES)
    condition = f'{{"path": "body", "op": "min_chars", "values": [{number}]}}'
    chat.queue = [
        f'{{"say": "x", "edits": [{{"set": "where", "where": [{condition}]}}]}}',
        {"say": "y", "edits": []},
    ]
    assert talk("drop all").heard == "y"


@pytest.mark.more
def test_a_model_that_says_nothing_is_not_silence(online, chat):
    talk = online(STAPLES)
    chat.queue = [{"say": "", "edits": []}]
    assert "answer was empty" in talk("well?").say


@pytest.mark.more
def test_edits_that_change_nothing_are_told_beside_its_words(online, chat):
    talk = online(STAPLES)
    chat.queue = [{"say": "I changed it.", "edits": [text("title", "body")]}]
    told = talk("both, please")
    assert (told.heard, told.say) == ("I changed it.", "That is what the mapping says already.")


@pytest.mark.more
def test_no_value_is_told_where_none_may_be(online, chat):
    turns = [{"who": "Quasimodo", "say": "Ring!"}, {"who": "Esmeralda", "say": "Water, please."}]
    talk = online(
        [{"id": n, "chat": turns} for n in range(20)], share_values="none", mapper="rules"
    )
    chat.always = {"say": "ok", "edits": []}
    talk("set message 1 say") if document(talk.now.mapping).get("messages") else talk(
        "set user chat[*].say"
    )
    talk("keep id is 7")
    talk("who speaks?")
    sent = json.dumps(chat.requests)
    assert "Quasimodo" not in sent
    assert "Ring!" not in sent


@pytest.mark.more
def test_no_problem_tells_a_value_where_none_may_be(online, chat):
    turns = [{"who": "Quasimodo", "say": "Ring!"}, {"who": "Esmeralda", "say": "Water, please."}]
    talk = online(
        [{"id": n, "chat": turns} for n in range(20)], share_values="none", mapper="rules"
    )
    wrong = {"set": "role", "value": "Quasimodi", "role": "user", "number": None}
    chat.always = {"say": "ok", "edits": [{**wrong, "alternative": None}]}
    told = talk("make the bell-ringer the user")
    assert "Quasimodo" in told.problems[0].words  # the person is told
    sent = json.dumps(chat.requests)
    assert "a name of the data" in sent
    assert "Quasimodo" not in sent
    assert "Esmeralda" not in sent


@pytest.mark.more
def test_counts_of_all_rows_are_approved_by_a_second_ok(offline, tmp_path):
    rows = [
        {"question": f"What is {n}?", "answer": f"It is the number {n} of many."}
        for n in range(3000)
    ]
    rows[1501]["question"] = "<image>\nWhat is it?"
    talk = offline(rows, mode="sft", out=str(tmp_path / "o"))
    state = convert_conversation(talk.now, talk.context)
    assert state["outcome"].status == "waiting"
    assert "1501" in state["outcome"].why
    asked = conclude_conversation(talk.now, state)
    assert asked.state["halted"].counts == {"media": 1}
    state = convert_conversation(asked, talk.context)
    assert state["outcome"].status == "done"
    assert conclude_conversation(asked, state).done == str(tmp_path / "o")
