"""What real servers do wrong, one by one, over HTTP: what comes out, after how many requests."""

import json
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import pytest

from ingot.agent.model import server_errors
from ingot.agent.model.endpoint import Endpoint
from ingot.converters.errors import ModelError

SCHEMA_REFUSED = "response_format.type json_schema is unavailable now"


def said(
    content: Any = "{}",
    finish: str | None = "stop",
    usage: Any = None,
    **message: Any,
) -> tuple[int, dict[str, Any]]:
    """A chat completion with that content and whatever else a message holds."""
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": content, **message},
    }
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return 200, body if usage is None else {**body, "usage": usage}


def refused(status: int, message: str, **more: Any) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": message, "type": "invalid_request_error", **more}}


def call(arguments: Any, name: str = "mapping") -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}


def drop(handler: Any) -> None:
    """The connection ends before a byte is said."""
    handler.connection.close()


def torn(handler: Any) -> None:
    """The body is shorter than it was said to be."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
    handler.wfile.write(b'content-length: 500\r\n\r\n{"choices": [')


def no_http(handler: Any) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")


PAGE = b"<!DOCTYPE html><html><script>function f(schema){}</script><h1>Welcome</h1></html>"
HTML = {"content-type": "text/html; charset=utf-8"}
SOON = {"retry-after-ms": "5"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Answers in turn, and what must come of them: text at a level, or a kind of error."""

    name: str
    answers: tuple[Any, ...]
    requests: int
    text: str = "{}"
    level: str = "json_schema"
    cut_off: bool = False
    note: str = ""
    kind: str = ""
    told: str = ""
    hint: str = ""


REPLIES = [
    # What a server cannot do is asked for in another way.
    Case(
        name="no json_schema",
        answers=(refused(400, SCHEMA_REFUSED), "{}"),
        requests=2,
        level="json_object",
        note="stepped down from json_schema to json_object",
    ),
    Case(
        name="no response_format at all, 422 with a list of details",
        answers=(
            (422, {"detail": [{"loc": ["body", "response_format"], "msg": "Extra inputs"}]}),
            (422, {"detail": [{"loc": ["body", "response_format"], "msg": "Extra inputs"}]}),
            said(None, "tool_calls", tool_calls=[call("{}")]),
        ),
        requests=3,
        level="tool",
        note="the reply was read from a tool call",
    ),
    Case(
        name="no formats and no tools: does not support tools",
        answers=(
            refused(400, "json_schema is not supported"),
            refused(400, "json_object is not supported"),
            (400, {"error": "registry.example/gemma:2b does not support tools"}),
            "{}",
        ),
        requests=4,
        level="prompt",
    ),
    Case(
        name="a grammar that cannot be made, with bounds or without, told as 500",
        answers=(*[refused(500, "failed to parse grammar")] * 2, "{}"),
        requests=3,
        level="json_object",
    ),
    Case(
        name="a grammar that cannot be made with its bounds",
        answers=(refused(400, "Failed to initialize samplers: failed to parse grammar"), "{}"),
        requests=2,
        note="asked without bounds",
    ),
    Case(
        name="a strict schema that takes no bounds",
        answers=(
            refused(400, "Invalid schema for response_format 'm': 'maxLength' is not permitted."),
            "{}",
        ),
        requests=2,
        note="asked without bounds",
    ),
    Case(
        name="a call in the content, in a fence",
        answers=('```json\n{"name": "mapping", "arguments": {"decision": "pt"}}\n```',),
        requests=1,
        text='{"decision": "pt"}',
        note="the reply was read from a call in the content",
    ),
    Case(
        name="a call in the content, between its tags, with its arguments as a text",
        answers=('<tool_call>\n{"name": "mapping", "arguments": "{}"}\n</tool_call>',),
        requests=1,
        note="the reply was read from a call in the content",
    ),
    Case(
        name="a call in the content in the form of the protocol",
        answers=('[{"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}]',),
        requests=1,
        text='{"a": 1}',
        note="the reply was read from a call in the content",
    ),
    Case(
        name="two calls in the content",
        answers=('{"name": "f", "arguments": {}}\n{"name": "f", "arguments": {"a": 1}}',),
        requests=1,
        text='{"name": "f", "arguments": {}}\n{"name": "f", "arguments": {"a": 1}}',
    ),
    Case(
        name="501 for a format",
        answers=(refused(501, "response_format is not implemented"), "{}"),
        requests=2,
        level="json_object",
    ),
    Case(
        name="404: no provider supports tool use, schemas before it",
        answers=(
            refused(404, "no endpoints found that support structured outputs"),
            refused(404, "no endpoints found that support response_format"),
            refused(404, "No endpoints found that support tool use"),
            "{}",
        ),
        requests=4,
        level="prompt",
    ),
    Case(
        name="a refusal in plain text",
        answers=(
            (400, b"json_schema: unknown variant", {"content-type": "text/plain"}),
            "{}",
        ),
        requests=2,
        level="json_object",
    ),
    Case(
        name="no temperature and no seed",
        answers=(
            refused(
                400, "Unsupported value: 'temperature' does not support 0", param="temperature"
            ),
            refused(400, "Unknown parameter: 'seed'", param="seed"),
            "{}",
        ),
        requests=3,
        note="asked without seed",
    ),
    Case(
        name="max_completion_tokens instead of max_tokens",
        answers=(
            refused(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.",
            ),
            "{}",
        ),
        requests=2,
        note="asked with max_completion_tokens",
    ),
    Case(
        name="neither name of the room",
        answers=(
            refused(422, "max_tokens: extra inputs are not permitted"),
            refused(422, "max_completion_tokens: extra inputs are not permitted"),
            "{}",
        ),
        requests=3,
        note="asked with no limit of the reply",
    ),
    Case(
        name="the room does not fit the context",
        answers=(
            refused(
                400,
                "'max_tokens' is too large: 4096. This model's maximum context length is 8192 "
                "tokens and your request has 5000 input tokens.",
            ),
            "{}",
        ),
        requests=2,
        note="asked with room for 2,048 tokens",
    ),
    # A reply that is none, or stands elsewhere.
    Case(
        name="white space with finish_reason stop",
        answers=(
            refused(400, SCHEMA_REFUSED),
            said(" \n\t  "),
            said(None, tool_calls=[call("{}")]),
        ),
        requests=3,
        level="tool",
        note="the reply at json_object is blank",
    ),
    Case(
        name="content null",
        answers=(said(None), "{}"),
        requests=2,
        level="json_object",
    ),
    Case(
        name="an empty message",
        answers=((200, {"choices": [{"message": {}}]}), "{}"),
        requests=2,
        level="json_object",
    ),
    Case(
        name="content as parts",
        answers=(said([{"type": "text", "text": '{"a":'}, {"type": "text", "text": "1}"}]),),
        requests=1,
        text='{"a":1}',
    ),
    Case(
        name="the answer in the reasoning, drafts before it",
        answers=(said("", reasoning_content='Maybe {"a": 1}? No: {"a": {"b": 2}} it is.'),),
        requests=1,
        text='{"a": {"b": 2}}',
        note="the reply was read from reasoning_content",
    ),
    Case(
        name="the answer in the reasoning, the field's other name",
        answers=(said(None, reasoning='{"a": 1}'),),
        requests=1,
        note="read from reasoning",
        text='{"a": 1}',
    ),
    Case(
        name="reasoning that holds no answer",
        answers=(said("", reasoning_content="I wonder {what} it is"), "{}"),
        requests=2,
        level="json_object",
    ),
    Case(
        name="tool_calls that nobody asked for",
        answers=(said("", "tool_calls", tool_calls=[call({"a": 1}, "other")]),),
        requests=1,
        text='{"a": 1}',
        note="a tool call",
    ),
    Case(
        name="a function_call of the old form",
        answers=(said(None, "function_call", function_call={"name": "x", "arguments": "{}"}),),
        requests=1,
        note="a tool call",
    ),
    Case(
        name="tool level answered with content",
        answers=(said(None), said(None), said('{"a": 1}')),
        requests=3,
        text='{"a": 1}',
        level="tool",
    ),
    Case(
        name="no finish_reason, no usage",
        answers=(said("{}", None),),
        requests=1,
    ),
    Case(
        name="half a surrogate pair",
        answers=((200, b'{"choices": [{"message": {"content": "a\\ud83d"}}]}'),),
        requests=1,
        text="a\ufffd",
    ),
    Case(
        name="prose is a reply like any other",
        answers=("I am sorry, I cannot see a data set.",),
        requests=1,
        text="I am sorry, I cannot see a data set.",
    ),
    # Length.
    Case(
        name="cut off once",
        answers=(said('{"a', "length"), "{}"),
        requests=2,
        note="cut off, asked again with room for 16,384 tokens",
    ),
    Case(
        name="cut off for good",
        answers=(said('{"a', "length"), said('{"ab', "length"), said('{"abc', "length")),
        requests=3,
        text='{"abc',
        cut_off=True,
    ),
    Case(
        name="cut off, and the context is no larger",
        answers=(
            said('{"a', "length"),
            refused(400, "maximum context length is 8192, max_tokens is too large"),
        ),
        requests=2,
        text='{"a',
        cut_off=True,
        note="16,384 tokens were refused",
    ),
    Case(
        name="cut off while it was still thinking",
        answers=(said("", "length", reasoning_content="Let me see"), "{}"),
        requests=2,
    ),
    # What passes.
    Case(
        name="busy once",
        answers=((503, {"error": "loading model"}, SOON), "{}"),
        requests=2,
        note="asked again: answered 503",
    ),
    Case(name="gateway page once", answers=((502, PAGE, HTML | SOON), "{}"), requests=2),
    Case(name="408 once", answers=((408, {}, SOON), "{}"), requests=2),
    Case(name="409 once", answers=((409, {}, SOON), "{}"), requests=2),
    Case(
        name="too many requests once",
        answers=((*refused(429, "Rate limit reached"), SOON), "{}"),
        requests=2,
    ),
    Case(name="dropped once", answers=((0, drop), "{}"), requests=2, note="connection was lost"),
    Case(name="torn once", answers=((0, torn), "{}"), requests=2, note="connection was lost"),
    Case(
        name="an error of 200 that passes",
        answers=((200, {"error": {"message": "upstream overloaded", "code": 503}}, SOON), "{}"),
        requests=2,
    ),
]

ERRORS = [
    Case(
        name="bad key",
        answers=(refused(401, "Incorrect API key"),),
        requests=1,
        kind="unauthorized",
        told="401",
        hint="set OPENAI_API_KEY to",
    ),
    Case(
        name="forbidden",
        answers=(refused(403, "no access"),),
        requests=1,
        kind="unauthorized",
        told="403",
        hint="may not use",
    ),
    Case(
        name="no such model, 404",
        answers=(
            refused(
                404,
                "The model `m1` does not exist or you do not have access to it",
                code="model_not_found",
            ),
        ),
        requests=1,
        kind="no_such_model",
        hint="--model",
    ),
    Case(
        name="no such model, as a text",
        answers=((404, {"error": 'model "m1" not found, try pulling it first'}),),
        requests=1,
        kind="no_such_model",
        told="try pulling",
    ),
    Case(
        name="no such model, 400",
        answers=(refused(400, "Model Not Exist"),),
        requests=1,
        kind="no_such_model",
    ),
    Case(
        name="not found, no words",
        answers=((404, {"detail": "Not Found"}),),
        requests=1,
        kind="not_openai",
        told="404",
        hint="--base-url",
    ),
    Case(
        name="not found, a page with code in it",
        answers=((404, PAGE, HTML),),
        requests=1,
        kind="not_openai",
        told="404",
    ),
    Case(
        name="a page instead of a reply",
        answers=((200, PAGE, HTML),),
        requests=1,
        kind="not_openai",
        told="a web page",
        hint="--base-url",
    ),
    Case(
        name="no JSON",
        answers=((200, b"ok"),),
        requests=1,
        kind="not_openai",
        told="no JSON object",
    ),
    Case(
        name="JSON that is no object",
        answers=((200, b"[1]"),),
        requests=1,
        kind="not_openai",
        told="no JSON object",
    ),
    Case(name="nothing", answers=((200, b""),), requests=1, kind="not_openai", told="nothing"),
    Case(name="deep nesting", answers=((200, b"[" * 100_000),), requests=1, kind="not_openai"),
    Case(
        name="no choices",
        answers=((200, {"object": "chat.completion"}),),
        requests=1,
        kind="not_openai",
        told="no choices",
    ),
    Case(
        name="an empty list of choices",
        answers=((200, {"choices": []}),),
        requests=1,
        kind="not_openai",
        told="no choices",
    ),
    Case(
        name="choices that are none",
        answers=((200, {"choices": ["x"]}),),
        requests=1,
        kind="not_openai",
    ),
    Case(
        name="an error of status 200",
        answers=((200, {"error": "Unexpected endpoint or method."}),),
        requests=1,
        kind="bad_request",
        told="Unexpected endpoint",
    ),
    Case(
        name="a refusal",
        answers=(said(None, refusal="I must not."),),
        requests=1,
        kind="refused",
        told="I must not.",
    ),
    Case(
        name="a refusal in parts",
        answers=(said([{"type": "refusal", "refusal": "No."}]),),
        requests=1,
        kind="refused",
        told="No.",
    ),
    Case(
        name="a content filter on the reply",
        answers=(said("", "content_filter"),),
        requests=1,
        kind="refused",
        told="content filter",
    ),
    Case(
        name="a content filter on the question",
        answers=(refused(400, "The response was filtered", code="content_filter"),),
        requests=1,
        kind="refused",
    ),
    Case(
        name="no quota",
        answers=(refused(429, "You exceeded your current quota", code="insufficient_quota"),),
        requests=1,
        kind="quota",
        hint="quota",
    ),
    Case(
        name="no balance", answers=(refused(402, "Insufficient Balance"),), requests=1, kind="quota"
    ),
    Case(
        name="busy for good",
        answers=((*refused(503, "busy"), SOON),) * 3,
        requests=3,
        kind="server_error",
        told="503",
    ),
    Case(
        name="too many requests for good",
        answers=((*refused(429, "slow down"), SOON),) * 3,
        requests=3,
        kind="rate_limited",
        hint="too many",
    ),
    Case(
        name="dropped for good",
        answers=((0, drop),) * 3,
        requests=3,
        kind="unreachable",
        told="connection was lost",
    ),
    Case(
        name="no HTTP",
        answers=((0, no_http),) * 3,
        requests=3,
        kind="unreachable",
        told="connection was lost",
    ),
    Case(
        name="blank at every level", answers=(said(""),) * 4, requests=4, kind="blank", told="blank"
    ),
    Case(
        name="the prompt does not fit",
        answers=(refused(400, "the request exceeds the available context size"),),
        requests=1,
        kind="bad_request",
        hint="larger context",
    ),
    Case(
        name="413",
        answers=((413, b"", HTML),),
        requests=1,
        kind="bad_request",
        hint="larger context",
    ),
    Case(
        name="the room does not fit however small",
        answers=(
            refused(
                400,
                "maximum context length is 100 tokens, 90 in the messages, 4096 in the completion",
            ),
        )
        * 4,
        requests=4,
        kind="bad_request",
    ),
    Case(
        name="a 400 that names nothing",
        answers=(refused(400, "bad"),),
        requests=1,
        kind="bad_request",
        told="400",
    ),
    Case(
        name="a redirect",
        answers=((307, b"", {"location": "http://login.example:1/x"}),),
        requests=1,
        kind="redirect",
        told="login.example",
    ),
    Case(name="a redirect without a target", answers=((302, b""),), requests=1, kind="redirect"),
]


@pytest.mark.parametrize("case", REPLIES, ids=lambda case: case.name)
def test_a_reply_comes_out(asker: Any, case: Case) -> None:
    reply = asker.ask(*case.answers)
    assert (reply.text, reply.level, reply.cut_off) == (case.text, case.level, case.cut_off)
    assert len(asker.chat.requests) == case.requests == asker.ledger.run.calls
    assert not asker.chat.queue
    assert case.note in "\n".join(reply.notes)
    assert bool(reply.notes) is (case.requests > 1 or bool(case.note))


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.name)
def test_an_error_says_what_and_what_to_do(asker: Any, case: Case) -> None:
    with pytest.raises(ModelError) as caught:
        asker.ask(*case.answers)
    error = caught.value
    assert (error.kind, error.where, error.exit_code) == (case.kind, "127.0.0.1", 4)
    assert len(asker.chat.requests) == case.requests == asker.ledger.run.calls
    assert case.told in error.problem
    assert case.hint in error.hint
    assert asker.store.level(asker.endpoint()) is None


# How servers word it: what they do not take, or the kind of error.
WORDINGS = [
    (400, "This response_format type is unavailable now", "level"),
    (400, "deepseek-reasoner does not support this tool_choice", "level"),
    (400, "does not support Function Calling", "level"),
    (400, "response_format is not supported in /v1/chat/completions", "level"),
    (400, "Unsupported parameter: tools, for this chat completion model", "level"),
    (422, "max_new_tokens: unknown field", "room name"),
    (400, '"auto" tool choice requires --enable-auto-tool-choice to be set', "level"),
    (400, "Failed to generate JSON. Please adjust your prompt.", "level"),
    (400, "'response_format.type' must be 'json_schema' or 'text'", "level"),
    (400, "tools param requires --jinja flag", "level"),
    (400, "Invalid schema for response_format 'mapping': In context=('properties',), no", "level"),
    (
        400,
        "'messages' must contain the word 'json' in some form, to use 'response_format'",
        "level",
    ),
    (404, "No endpoints found that can handle the requested parameters.", "level"),
    (400, 'Invalid JSON payload received. Unknown name "seed": Cannot find field.', "seed"),
    (400, "Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
    (400, "max_tokens is too large: 65536. This model supports at most 16384", "room size"),
    (
        400,
        "This model's maximum context length is 8192 tokens. However, you requested 4096 output "
        "tokens and your prompt contains at least 4097 input tokens",
        "room size",
    ),
    (
        400,
        "Requested token count exceeds the model's maximum context length of 8192 tokens: 5000 "
        "from the input messages and 4096 tokens for the completion.",
        "room size",
    ),
    (422, "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000", "room size"),
    (
        429,
        "Request too large for m1 on tokens per min (TPM): Limit 6000, Requested 9000. "
        "The input or output tokens must be reduced.",
        "room size",
    ),
    (400, "The decoder prompt is longer than the maximum model length of 8192.", "prompt size"),
    (400, "The input (9000 tokens) is longer than the model's context length", "prompt size"),
    (400, "the request exceeds the available context size, try increasing it", "prompt size"),
    (404, "No endpoints found for m1.", "no_such_model"),
    (400, "No models loaded. Please load a model", "no_such_model"),
    (400, "Billing hard limit has been reached", "quota"),
    (400, "The response was filtered due to the content management policy", "refused"),
    (500, "CUDA out of memory in function forward", "server_error"),
    (529, "overloaded", "server_error"),
]


@pytest.mark.parametrize(("status", "words", "meant"), WORDINGS)
@pytest.mark.parametrize("shape", ["error", "text", "message", "listed"])
def test_the_words_of_servers(asker: Any, status: int, words: str, meant: str, shape: str) -> None:
    shapes = {
        "error": {"error": {"message": words, "code": status}},
        "text": {"error": words},
        "message": {"object": "error", "message": words},
        "listed": [{"error": {"message": words, "status": "INVALID_ARGUMENT"}}],
    }
    body = json.dumps(shapes[shape]).encode()
    headers = {"content-type": "application/json"}
    fault = server_errors.find_fault(asker.endpoint(), status, headers, body)
    assert fault is not None
    assert (fault.refuses or fault.kind) == meant
    assert words.replace("`", "")[:40] in fault.problem.replace("`", "")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no", "param": "seed"}},
        {"detail": [{"loc": ["body", "seed"], "msg": "no", "input": {"response_format": 1}}]},
    ],
)
def test_a_parameter_that_is_named_apart_counts_before_words(asker: Any, body: Any) -> None:
    content = json.dumps(body).encode()
    fault = server_errors.find_fault(
        asker.endpoint(), 422, {"content-type": "application/json"}, content
    )
    assert fault is not None
    assert fault.refuses == "seed"


def test_every_kind_of_error_is_one_that_callers_know() -> None:
    assert {case.kind for case in ERRORS} <= set(ModelError.KINDS)


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "60"}, 60.0),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
        ({"retry-after-ms": "20", "retry-after": "9"}, 0.02),
    ],
)
def test_a_wait_that_is_asked_for_is_kept(
    asker: Any, headers: dict[str, str], waited: float
) -> None:
    asker.ask((429, {}, headers), "{}")
    assert asker.is_waiting == [pytest.approx(waited)]
    assert asker.ledger.run.seconds >= waited


def test_a_date_to_wait_for() -> None:
    soon = formatdate(time.time() + 30, usegmt=True)
    assert 28 <= (server_errors.retry_wait_s({"retry-after": soon}) or 0) <= 30


@pytest.mark.parametrize("value", ["soon", "", "nan", "inf", "Mon, 99 Foo 2026"])
def test_a_wait_that_cannot_be_read_is_one_of_ours(asker: Any, value: str) -> None:
    asker.ask((503, {}, {"retry-after": value}), "{}")
    assert 0.5 <= asker.is_waiting[0] <= 1


def test_waits_of_ours_grow(asker: Any) -> None:
    asker.ask(*((503, {}),) * 5, "{}", retries=5)
    assert asker.is_waiting == sorted(asker.is_waiting)
    assert 8 <= asker.is_waiting[-1] <= 8.5


def test_a_wait_that_is_too_long_ends_the_question(asker: Any) -> None:
    with pytest.raises(ModelError, match="asked again in 3600 s") as caught:
        asker.ask((429, {}, {"retry-after": "3600"}))
    assert (caught.value.kind, asker.is_waiting) == ("rate_limited", [])


def test_the_key_is_sent_and_never_said(asker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    answers = [
        refused(401, "bad key sk-very-secret"),
        refused(400, f"{'x' * 190} sk-very-secret is odd"),
        said(None, refusal="not with sk-very-secret"),
    ]
    for answer in answers:
        with pytest.raises(ModelError) as caught:
            asker.ask(answer)
        assert "very" not in str(caught.value)
    assert asker.chat.headers[0]["authorization"] == "Bearer sk-very-secret"


def test_words_of_the_server_are_short_and_cannot_steer_a_terminal(asker: Any) -> None:
    with pytest.raises(ModelError) as caught:
        asker.ask(refused(400, "a\x1b[31mb\u202ec\n" + "d" * 5000))
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)
    assert "ddd" in str(caught.value)
    assert len(caught.value.problem) < 260


def test_a_model_named_like_a_feature_is_not_stepped_down(asker: Any) -> None:
    message = "function-json_schema-tools is overloaded with requests"
    with pytest.raises(ModelError) as caught:
        asker.ask(refused(400, message), model="function-json_schema-tools")
    assert (caught.value.kind, len(asker.chat.requests)) == ("bad_request", 1)


def test_a_model_of_one_letter_hides_no_word(asker: Any) -> None:
    no_format = refused(400, "response_format is not supported by m")
    assert asker.ask(no_format, "{}", model="m").level == "json_object"


def test_the_forms_of_the_levels(asker: Any) -> None:
    asker.ask(said(None), said(None), said(None), "{}")
    schema, loose, tool, plain = asker.chat.requests
    assert schema["response_format"]["json_schema"]["strict"] is True
    sent = schema["response_format"]["json_schema"]["schema"]
    assert loose["response_format"] == {"type": "json_object"}
    assert tool["tools"][0]["function"]["parameters"] == sent
    assert tool["tool_choice"] == {"type": "function", "function": {"name": "mapping"}}
    form = {"temperature", "seed", "max_tokens", "stream", "stream_options"}
    assert set(plain) == {"model", "messages", *form}
    for one in asker.chat.requests:
        assert (one["temperature"], one["seed"], one["max_tokens"]) == (0, 0, 4096)
        assert one["messages"] == asker.messages
    assert json.dumps(plain)


def test_a_key_that_is_not_accepted_is_told_by_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-own")
    fault = server_errors.find_fault(Endpoint(model="m", preset="deepseek"), 401, {}, b"{}")
    assert fault is not None
    assert fault.hint == "set DEEPSEEK_API_KEY to a key that this endpoint accepts"


def test_bounds_are_sent_one_above_what_is_valid(asker: Any) -> None:
    asker.ask("{}")
    sent = asker.chat.requests[0]["response_format"]["json_schema"]["schema"]
    assert sent != asker.schema
    assert _move_bounds(sent, -1) == asker.schema
    text = {"type": "string", "maxLength": asker.schema["properties"]["reason"]["maxLength"] + 1}
    assert sent["properties"]["reason"] == text


def test_a_server_that_takes_no_bounds_is_asked_without_them_from_then_on(asker: Any) -> None:
    no = refused(400, "Invalid schema for response_format: 'maxLength' is not permitted.")
    asker.ask(no, "{}", "{}")
    asker.ask()
    last = asker.chat.requests[-1]["response_format"]["json_schema"]
    assert last["strict"] is True
    assert last["schema"] == _move_bounds(asker.schema, None)
    assert asker.levels() == ["json_schema"] * 3


@pytest.mark.parametrize(("preset", "bounded"), [("openai", False), ("llamacpp", True)])
def test_a_preset_says_whether_bounds_are_sent(asker: Any, preset: str, bounded: bool) -> None:
    asker.ask("{}", preset=preset)
    asked = json.dumps(asker.chat.requests[0])
    assert ("maxLength" in asked, "maxItems" in asked) == (bounded, bounded)


def test_what_llamacpp_understands_is_sent_to_it(asker: Any) -> None:
    asker.ask(said(None), said(None), said(None), "{}", preset="llamacpp")
    schema, loose, tool, _ = asker.chat.requests
    sent = schema["response_format"]["json_schema"]["schema"]
    assert loose["response_format"] == {"type": "json_object", "schema": sent}
    assert tool["tool_choice"] == "required"
    assert tool["tools"][0]["function"]["parameters"] == sent


def _move_bounds(schema: Any, by: int | None) -> Any:
    """The schema with its bounds moved; None = without them."""
    if isinstance(schema, list):
        return [_move_bounds(one, by) for one in schema]
    if not isinstance(schema, dict):
        return schema
    bounds = {key: schema[key] + by for key in ("maxItems", "maxLength") if by and key in schema}
    rest = {k: v for k, v in schema.items() if k not in ("maxItems", "maxLength")}
    return {key: _move_bounds(value, by) for key, value in rest.items()} | bounds
