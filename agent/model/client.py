"""Ask a chat endpoint one question, as strictly as it can take it, within the budgets.

Requests are repeated after errors that pass; everything sent is counted. A listener hears the reply
as it comes, and is told when it starts again.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json import dumps
from typing import TYPE_CHECKING

from ingot.agent.model import replies, request_form, server_errors
from ingot.agent.model.budget import Ledger, Spent, estimate_tokens
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.replies import ChunkReader, Reply
from ingot.agent.model.request_form import (
    Message,
    RequestForm,
    first_form,
    question_tokens,
    softer_form,
)
from ingot.agent.model.server_errors import Fault
from ingot.converters.errors import BudgetReached, ModelError
from ingot.converters.rows import Json

if TYPE_CHECKING:
    import tenacity

    from ingot.agent.model.transport import Answer, Post

OnText = Callable[[str | None], None]


class ReplyListener:
    """Hands texts of one reply to a listener; None = forget them, the reply starts again."""

    def __init__(self, hear: OnText) -> None:
        self._hear = hear
        self._heard: list[str] = []
        self._former = False

    def begin(self) -> None:
        """Begin a request, whose text replaces that of an earlier one."""
        self._former = True

    def say(self, text: str) -> None:
        """Take more text of the reply."""
        if self._former:
            self._former = False
            self._forget()
        self._heard.append(text)
        self._hear(text)

    def take_back(self) -> None:
        """Drop the text of this request: it is not the reply."""
        if not self._former:
            self._forget()

    def settle(self, text: str) -> None:
        """Replace the streamed text by the final reply, if they differ."""
        if "".join(self._heard) != text:
            self._forget()
            self._heard.append(text)
            self._hear(text)

    def _forget(self) -> None:
        if self._heard:
            self._heard.clear()
            self._hear(None)


_FIRST_WAIT_S, _LAST_WAIT_S = 0.5, 8.0
_LONGEST = 30  # times the time limit: a reply that is written for longer is given up
_NO_CHOICES = Fault(
    kind="not_openai", problem="the reply holds no choices", hint=server_errors.BASE_URL
)
_TORN = Fault(kind="unreachable", problem="the connection was lost during the reply", passing=True)
_COMMENT = re.compile(rb"^:.*$", re.MULTILINE)


class _PassingError(Exception):
    """A fault that may pass, on its way to the next try."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


@dataclass(frozen=True, kw_only=True, eq=False)
class Sender:
    """What requests are made with; `hearing` None = replies are not streamed."""

    endpoint: Endpoint
    messages: Sequence[Message]
    schema: dict[str, Json]
    post: "Post"
    ledger: Ledger
    sleep: Callable[[float], None]
    notes: list[str]
    hearing: ReplyListener | None = None

    def send(self, asked: RequestForm) -> Reply | Fault:
        """Return what the model said, or the fault that repeating did not mend."""
        import tenacity

        growing = tenacity.wait_exponential(multiplier=_FIRST_WAIT_S, max=_LAST_WAIT_S)
        former: list[str] = []
        backoff = growing + tenacity.wait_random(0, _FIRST_WAIT_S)
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.endpoint.retries + 1),
            retry=tenacity.retry_if_exception_type(_PassingError),
            wait=lambda state: _retry_wait(state, backoff),
            sleep=self._rest,
            before_sleep=partial(self._note, former),
            reraise=True,
        )
        try:
            return retrying(self._send_once, asked)
        except _PassingError as error:
            return _whole_story(former, error.fault)

    def _send_once(self, asked: RequestForm) -> Reply | Fault:
        about = question_tokens(asked, self.endpoint, self.messages, self.schema)
        self.ledger.check(about, asked.room)
        begun, chunks, reply = time.monotonic(), self._chunks(asked), None
        try:
            reply = self._answer(asked, chunks)
        finally:
            # A person may end the question: what was written by then is with the server.
            spent = self._count_spent(reply, about, chunks) if self.post.wrote else Spent(calls=1)
            self.ledger.add(spent + Spent(seconds=time.monotonic() - begun))
        if isinstance(reply, Fault):
            if self.hearing is not None:
                self.hearing.take_back()
            if reply.kind == "timeout" and self.ledger.seconds_left() == 0:
                self.ledger.check(about, asked.room)
            if reply.passing:
                raise _PassingError(reply)
        return reply

    def _chunks(self, asked: RequestForm) -> ChunkReader | None:
        """What puts the reply together; None = no stream is asked for."""
        if self.hearing is None or not asked.streamed:
            return None
        self.hearing.begin()
        return ChunkReader("arguments" if asked.level == "tool" else "content", self.hearing.say)

    def _answer(self, asked: RequestForm, chunks: ChunkReader | None) -> Reply | Fault:
        from ingot.agent.model.transport import Answer, NoAnswerError, Times

        left, silence = self.ledger.seconds_left(), self.endpoint.timeout_s
        whole = silence * _LONGEST
        times = Times(silence, whole) if left is None else Times(silence, min(whole, left))
        body = request_form.request_body(asked, self.endpoint, self.messages, self.schema)
        try:
            if chunks is None:
                return _read_answer(self.endpoint, self.post(body, times))
            return _read_streamed(self.endpoint, self.post(body, times, chunks.take), chunks)
        except NoAnswerError as error:
            if chunks is not None and chunks.finished and error.fault.passing:
                # The reply is whole: what is missing is the end of the connection.
                return _read_chunks(self.endpoint, Answer(status=200, headers={}, body=b""), chunks)
            if chunks is not None and chunks.begun and error.fault.kind == "unreachable":
                return _TORN
            return error.fault

    def _count_spent(
        self, reply: Reply | Fault | None, about: int, chunks: ChunkReader | None
    ) -> Spent:
        """What a sent request spent, estimated where not told; `reply` None = a person ended it."""
        asked = 0 if isinstance(reply, Fault) and reply.kind != "timeout" else about
        tokens_out = 0
        if chunks is not None and chunks.begun:  # Also where it broke off later.
            tokens_in, tokens_out = chunks.tokens()
            asked = tokens_in or about
        elif isinstance(reply, Reply):
            asked = reply.tokens_in or about
            tokens_out = reply.tokens_out or estimate_tokens(reply.text)
        return Spent(
            calls=1,
            chars_sent=sum(len(message["content"]) for message in self.messages),
            tokens_in=asked,
            tokens_out=tokens_out,
            cost=self.ledger.cost(asked, tokens_out),
        )

    def _rest(self, seconds: float) -> None:
        self.ledger.check_wait(seconds)
        self.sleep(seconds)
        self.ledger.add(Spent(seconds=seconds))

    def _note(self, former: list[str], state: "tenacity.RetryCallState") -> None:
        former.append(_retried_fault(state).problem)
        self.notes.append(f"asked again: {former[-1]}")


def _read_streamed(endpoint: Endpoint, answer: "Answer", chunks: ChunkReader) -> Reply | Fault:
    """What an answer says where a stream was asked for, in chunks or as a whole."""
    if answer.status >= 300:
        return _read_answer(endpoint, answer, streamed=True)
    streams = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not streams and replies.reply_document(answer.body) is None:
        chunks.take(answer.body)  # It may be a stream under another type.
    chunks.end()
    if chunks.begun or chunks.finished:
        outcome = _read_chunks(endpoint, answer, chunks)
        whole = (
            isinstance(outcome, Reply) and replies.reply_document(outcome.text.encode()) is not None
        )
        return outcome if chunks.finished or whole else _TORN
    if streams and not _COMMENT.sub(b"", answer.body).strip():
        return _TORN
    return _read_answer(endpoint, answer, streamed=True)


def _read_chunks(endpoint: Endpoint, answer: "Answer", chunks: ChunkReader) -> Reply | Fault:
    return _read_answer(endpoint, replace(answer, body=dumps(chunks.document()).encode()))


def _read_answer(endpoint: Endpoint, answer: "Answer", *, streamed: bool = False) -> Reply | Fault:
    fault = server_errors.find_fault(
        endpoint, answer.status, answer.headers, answer.body, streamed=streamed
    )
    if fault is not None:
        return fault
    document = replies.reply_document(answer.body)
    choice = replies.read_choice(document) if document is not None else None
    return _NO_CHOICES if choice is None else choice


def _whole_story(former: Sequence[str], last: Fault) -> Fault:
    """The last fault, behind what kept the tries before it from an answer."""
    problems = list(dict.fromkeys([*former, last.problem]))
    if len(problems) == 1:
        return last
    hint = "is the server still running?" if last.kind == "unreachable" else last.hint
    return replace(last, problem=", then ".join(problems), hint=hint)


def _retried_fault(state: "tenacity.RetryCallState") -> Fault:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, _PassingError)
    return error.fault


def _retry_wait(
    state: "tenacity.RetryCallState", backoff: "Callable[[tenacity.RetryCallState], float]"
) -> float:
    wait = _retried_fault(state).wait_s
    return backoff(state) if wait is None else wait


_GROWTH, _MOST_GROWTHS = 4, 2
_FULL = 0.9  # of the room: a reply that was cut off with less of it met another limit
_TAIL = 2_000  # characters of a reply that may repeat themselves, but for their numbers
_DIGITS = re.compile(r"\d+")
_CIRCLE = re.compile(r"(.{1,80}?)\1{15}\Z", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What came back, and what was stepped down, dropped or asked again, for people."""

    text: str
    cut_off: bool
    level: str
    notes: tuple[str, ...] = ()


def estimate_question(
    endpoint: Endpoint, messages: Sequence[Message], schema: dict[str, Json], store: Store
) -> int:
    """Return about how many tokens a question of `ask_model` has, as its budget counts them."""
    form = first_form(endpoint, store.level(endpoint), None)
    return question_tokens(form, endpoint, messages, schema)


def ask_model(
    endpoint: Endpoint,
    messages: Sequence[Message],
    schema: dict[str, Json],
    *,
    store: Store,
    ledger: Ledger,
    below: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
    hear: OnText | None = None,
) -> Completion:
    """Return one reply, constrained to `schema` as far as the endpoint can do that.

    `below` names the level whose last reply did not obey: this question starts under it, and the
    next ones do too. `sleep` waits the given seconds between tries. What the endpoint does not
    take is remembered however the question ends, unless nothing is left that it could be asked by.

    The reply is streamed, so that a server that writes is told from one that is silent; every new
    text of it is handed to `hear` as it comes: of the content, at the level of tool calls of the
    arguments, not of what is reasoned. None says: forget what you heard, the reply starts again (it
    broke off, was blank or cut off, was refused).
    In the end what was heard since the last None is the `text` of the completion, whether the
    endpoint can stream or not; as the model says it, characters that steer a terminal among it.
    `hear` is called in the thread that asks; what it raises ends the question.
    """
    from ingot.agent.model.transport import check_url, connect_endpoint

    check_url(endpoint)
    remembered = store.level(endpoint)
    notes: list[str] = []
    with connect_endpoint(endpoint) as post:
        sender = Sender(
            endpoint=endpoint,
            messages=messages,
            schema=schema,
            post=post,
            ledger=ledger,
            sleep=sleep,
            notes=notes,
            hearing=ReplyListener(hear or (lambda _: None)),
        )
        forms = [replace(first_form(endpoint, remembered, below), heard=True)]
        try:
            outcome = _final_reply(sender, forms)
            if sender.hearing is not None:
                sender.hearing.settle(outcome.text)
        except (ModelError, BudgetReached) as error:
            error.notes = tuple(notes)
            raise
        finally:
            # As much of it as was paid for, also where a budget or a person ends the question.
            if forms[-1].known != (remembered or first_form(endpoint, None, None).known):
                store.remember_form(endpoint, forms[-1].known)
    level = forms[-1].level
    return Completion(text=outcome.text, cut_off=outcome.cut_off, level=level, notes=tuple(notes))


def _final_reply(sender: Sender, forms: list[RequestForm]) -> Reply:
    """What was said, whole or cut off for good; `forms` gets every form that was gone on to."""
    while True:
        form = forms[-1]
        outcome = sender.send(form)
        if isinstance(outcome, Reply) and outcome.cut_off:
            outcome = _retry_with_room(sender, form, outcome)
        if isinstance(outcome, Fault):
            _add_form(sender, forms, outcome)
        elif outcome.refusal:
            raise server_errors.fault_error(
                sender.endpoint, server_errors.refusal_fault(sender.endpoint, outcome.refusal)
            )
        elif not outcome.text.strip() and not outcome.cut_off:
            _add_form(sender, forms, _blank_fault(form))
        else:
            if outcome.source:
                sender.notes.append(f"the reply was read from {outcome.source}")
            return outcome


def _retry_with_room(sender: Sender, form: RequestForm, reply: Reply) -> Reply | Fault:
    """What is said where the reply may be longer; the cut off reply where it may not."""
    for _ in range(_MOST_GROWTHS if form.rooms else 0):
        if why := _more_room_is_vain(form, reply):
            sender.notes.append(f"cut off, not asked again: {why}")
            return reply
        form = replace(form, room=form.room * _GROWTH)
        try:
            longer = sender.send(form)
        except BudgetReached as reached:
            sender.notes.append(f"cut off, not asked again: {reached.problem}")
            return reply
        if isinstance(longer, Fault) and longer.refuses in ("room size", "prompt size"):
            sender.notes.append(f"cut off, {form.room:,} tokens were refused: {longer.problem}")
            return reply
        sender.notes.append(f"cut off, asked again with room for {form.room:,} tokens")
        if isinstance(longer, Fault) or not longer.cut_off:
            return longer
        reply = longer
    return reply


def _more_room_is_vain(form: RequestForm, reply: Reply) -> str:
    """Why a cut off reply would be no longer with more room, "" if it may be."""
    if reply.tokens_out and reply.tokens_out < _FULL * form.room:
        return f"the server's context was full after {reply.tokens_out:,} tokens of the reply"
    tail = _DIGITS.sub("0", reply.text[-_TAIL:])
    return "it repeats itself" if _CIRCLE.search(tail) else ""


def _add_form(sender: Sender, forms: list[RequestForm], fault: Fault) -> None:
    following = softer_form(forms[-1], fault.refuses)
    if following is None:
        if fault.refuses in ("level", "bounds"):
            del forms[1:]  # No step works, so the last one is no better than the first.
        raise server_errors.fault_error(sender.endpoint, fault)
    sender.notes.append(f"{_form_change(forms[-1], following)}: {fault.problem}")
    forms.append(following)


def _form_change(form: RequestForm, following: RequestForm) -> str:
    if following.level != form.level:
        return f"stepped down from {form.level} to {following.level}"
    if following.dropped != form.dropped:
        return f"asked without {following.dropped[-1]}"
    if following.rooms != form.rooms:
        return f"asked with {following.rooms[0] if following.rooms else 'no limit of the reply'}"
    return f"asked with room for {following.room:,} tokens"


def _blank_fault(form: RequestForm) -> Fault:
    hint = "try another model, or a server that says why"
    return Fault(
        kind="blank", problem=f"the reply at {form.level} is blank", hint=hint, refuses="level"
    )
