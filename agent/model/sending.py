"""One request, repeated after errors that pass, within the budgets; everything sent is counted."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from json import dumps
from typing import TYPE_CHECKING

from ingot.agent.model import faults, form, replies
from ingot.agent.model.budget import Ledger, Spent, tokens_in
from ingot.agent.model.chunks import Chunks
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.faults import Fault
from ingot.agent.model.form import Form, Message
from ingot.agent.model.hearing import Hearing
from ingot.converters.rows import Json

if TYPE_CHECKING:
    import tenacity

    from ingot.agent.model.transport import Answer, Post

_FIRST_WAIT_S, _LAST_WAIT_S = 0.5, 8.0
_NO_CHOICES = Fault(kind="not_openai", problem="the reply holds no choices", hint=faults.BASE_URL)
_TORN = Fault(kind="unreachable", problem="the reply broke off", passing=True)
_COMMENT = re.compile(rb"^:.*$", re.MULTILINE)


class _PassingError(Exception):
    """A fault that may pass, on its way to the next try."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


@dataclass(frozen=True, kw_only=True, eq=False)
class Sender:
    """What requests are made with.

    Attributes:
        endpoint: who is asked.
        messages: what is asked.
        schema: of the reply.
        post: makes one request.
        ledger: what may be spent.
        sleep: waits so many seconds.
        notes: what was asked again, for people; added to.
        hearing: is told the replies while they come; None = they are not streamed.
    """

    endpoint: Endpoint
    messages: Sequence[Message]
    schema: dict[str, Json]
    post: "Post"
    ledger: Ledger
    sleep: Callable[[float], None]
    notes: list[str]
    hearing: Hearing | None = None

    def send(self, asked: Form) -> replies.Said | Fault:
        """What the model said, or the fault that repeating did not mend.

        Raises:
            BudgetReached: one more request, or the wait before it, passes a limit.
        """
        import tenacity

        growing = tenacity.wait_exponential(multiplier=_FIRST_WAIT_S, max=_LAST_WAIT_S)
        backoff = growing + tenacity.wait_random(0, _FIRST_WAIT_S)
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.endpoint.retries + 1),
            retry=tenacity.retry_if_exception_type(_PassingError),
            wait=lambda state: _wait(state, backoff),
            sleep=self._rest,
            before_sleep=self._note,
            reraise=True,
        )
        try:
            return retrying(self._once, asked)
        except _PassingError as error:
            return error.fault

    def _once(self, asked: Form) -> replies.Said | Fault:
        said = self._counted(asked)
        if isinstance(said, Fault) and said.passing:
            raise _PassingError(said)
        return said

    def _counted(self, asked: Form) -> replies.Said | Fault:
        about = self._about(asked)
        self.ledger.check(about, asked.room)
        left = self.ledger.seconds_left()
        seconds = self.endpoint.timeout_s if left is None else min(left, self.endpoint.timeout_s)
        begun, chunks, said = time.monotonic(), self._chunks(asked), None
        try:
            said = self._said(asked, seconds, chunks)
        finally:
            # A person may end the question: what was written by then is with the server.
            spent = self._spent(said, about, chunks) if self.post.wrote else Spent(calls=1)
            self.ledger.add(spent + Spent(seconds=time.monotonic() - begun))
        if isinstance(said, Fault) and said.kind == "timeout" and self.ledger.seconds_left() == 0:
            self.ledger.check(about, asked.room)
        return said

    def _chunks(self, asked: Form) -> Chunks | None:
        """What puts the reply together; None = no stream is asked for."""
        if self.hearing is None or not asked.streamed:
            return None
        self.hearing.begin()
        return Chunks("arguments" if asked.level == "tool" else "content", self.hearing.say)

    def _said(self, asked: Form, seconds: float, chunks: Chunks | None) -> replies.Said | Fault:
        """What came of one request."""
        said = self._answered(asked, seconds, chunks)
        if self.hearing is not None and isinstance(said, Fault):
            self.hearing.take_back()
        return said

    def _answered(self, asked: Form, seconds: float, chunks: Chunks | None) -> replies.Said | Fault:
        from ingot.agent.model.transport import Answer, NoAnswerError

        body = form.body(asked, self.endpoint, self.messages, self.schema)
        try:
            if chunks is None:
                return _read(self.endpoint, self.post(body, seconds))
            return _heard(self.endpoint, self.post(body, seconds, chunks.take), chunks)
        except NoAnswerError as error:
            if chunks is not None and chunks.finished and error.passing:
                # The reply is whole: what is missing is the end of the connection.
                return _together(self.endpoint, Answer(status=200, headers={}, body=b""), chunks)
            return Fault(
                kind=error.kind, problem=error.problem, hint=error.hint, passing=error.passing
            )

    def _about(self, asked: Form) -> int:
        """About how many tokens the request has, a schema that is sent along included."""
        text = "\n".join(one["content"] for one in self.messages)
        extra = dumps(self.schema) if asked.level in ("json_schema", "tool") else ""
        return tokens_in(text) + tokens_in(extra)

    def _spent(self, said: replies.Said | Fault | None, about: int, chunks: Chunks | None) -> Spent:
        """What a request that was sent spent; what a server does not tell is estimated.

        `said` None = nothing came of it, as a person ended it.
        """
        asked = 0 if isinstance(said, Fault) and said.kind != "timeout" else about
        got = 0
        if chunks is not None and chunks.begun:  # Also where it broke off later.
            told, got = chunks.tokens()
            asked = told or about
        elif isinstance(said, replies.Said):
            asked = said.tokens_in or about
            got = said.tokens_out or tokens_in(said.text)
        return Spent(
            calls=1,
            chars_sent=sum(len(one["content"]) for one in self.messages),
            tokens_in=asked,
            tokens_out=got,
            cost=self.ledger.cost(asked, got),
        )

    def _rest(self, seconds: float) -> None:
        self.ledger.check_wait(seconds)
        self.sleep(seconds)
        self.ledger.add(Spent(seconds=seconds))

    def _note(self, state: "tenacity.RetryCallState") -> None:
        self.notes.append(f"asked again: {_fault(state).problem}")


def _heard(endpoint: Endpoint, answer: "Answer", chunks: Chunks) -> replies.Said | Fault:
    """What an answer says where a stream was asked for, in chunks or as a whole."""
    if answer.status >= 300:
        return _read(endpoint, answer, streamed=True)
    streams = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not streams and replies.document(answer.body) is None:
        chunks.take(answer.body)  # It may be a stream under another type.
    chunks.end()
    if chunks.begun or chunks.finished:
        said = _together(endpoint, answer, chunks)
        return said if chunks.finished or _is_object(said) else _TORN
    if streams and not _COMMENT.sub(b"", answer.body).strip():
        return _TORN
    return _read(endpoint, answer, streamed=True)


def _is_object(said: replies.Said | Fault) -> bool:
    """Whether a stream that ended without a word of that is whole all the same."""
    return isinstance(said, replies.Said) and replies.document(said.text.encode()) is not None


def _together(endpoint: Endpoint, answer: "Answer", chunks: Chunks) -> replies.Said | Fault:
    return _read(endpoint, replace(answer, body=dumps(chunks.document()).encode()))


def _read(endpoint: Endpoint, answer: "Answer", *, streamed: bool = False) -> replies.Said | Fault:
    fault = faults.found(endpoint, answer.status, answer.headers, answer.body, streamed=streamed)
    if fault is not None:
        return fault
    document = replies.document(answer.body)
    said = replies.said(document) if document is not None else None
    return _NO_CHOICES if said is None else said


def _fault(state: "tenacity.RetryCallState") -> Fault:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, _PassingError)
    return error.fault


def _wait(
    state: "tenacity.RetryCallState", backoff: "Callable[[tenacity.RetryCallState], float]"
) -> float:
    told = _fault(state).wait_s
    return backoff(state) if told is None else told
