"""One request, repeated after errors that pass, within the budgets; everything sent is counted."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING

from ingot.agent.model import faults, form, replies
from ingot.agent.model.budget import Ledger, Spent, tokens_in
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.faults import Fault
from ingot.agent.model.form import Form, Message
from ingot.converters.rows import Json

if TYPE_CHECKING:
    import tenacity

    from ingot.agent.model.transport import Answer, Post

_FIRST_WAIT_S, _LAST_WAIT_S = 0.5, 8.0
_NO_CHOICES = Fault(kind="not_openai", problem="the reply holds no choices", hint=faults.BASE_URL)


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
    """

    endpoint: Endpoint
    messages: Sequence[Message]
    schema: dict[str, Json]
    post: "Post"
    ledger: Ledger
    sleep: Callable[[float], None]
    notes: list[str]

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
        begun = time.monotonic()
        said, sent = self._said(asked, seconds)
        spent = self._spent(said, about) if sent else Spent(calls=1)
        self.ledger.add(spent + Spent(seconds=time.monotonic() - begun))
        if isinstance(said, Fault) and said.kind == "timeout" and self.ledger.seconds_left() == 0:
            self.ledger.check(about, asked.room)
        return said

    def _said(self, asked: Form, seconds: float) -> tuple[replies.Said | Fault, bool]:
        """What came of one request, and whether anything of it left the machine."""
        from ingot.agent.model.transport import NoAnswerError

        try:
            answer = self.post(form.body(asked, self.endpoint, self.messages, self.schema), seconds)
        except NoAnswerError as error:
            fault = Fault(
                kind=error.kind, problem=error.problem, hint=error.hint, passing=error.passing
            )
            return fault, error.sent
        return _read(self.endpoint, answer), True

    def _about(self, asked: Form) -> int:
        """About how many tokens the request has, a schema that is sent along included."""
        text = "\n".join(one["content"] for one in self.messages)
        extra = dumps(self.schema) if asked.level in ("json_schema", "tool") else ""
        return tokens_in(text) + tokens_in(extra)

    def _spent(self, said: replies.Said | Fault, about: int) -> Spent:
        """What a request that was sent spent; what a server does not tell is estimated."""
        asked = 0 if isinstance(said, Fault) and said.kind != "timeout" else about
        got = 0
        if isinstance(said, replies.Said):
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


def _read(endpoint: Endpoint, answer: "Answer") -> replies.Said | Fault:
    fault = faults.found(endpoint, answer.status, answer.headers, answer.body)
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
