"""The course of a run: its steps, what follows each, and how far a run is advanced.

begin -> discover -> sample -> propose -> validate -> compare -> review -> convert -> report

A model is asked again after `repair` (with what was wrong) and after `look` (with the records that
its answer makes), at most twice in all; a run whose model may not or cannot be asked waits in
`pause`. A step may have a question to a person: a run stands before it until it is answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ingot.agent.context import Context
from ingot.agent.judging import policy
from ingot.agent.privacy import EMPTY_TEXT, Safe
from ingot.agent.state import Question, Reply, Review, State
from ingot.agent.steps.convert import convert, report
from ingot.agent.steps.discover import begin, discover, sample
from ingot.agent.steps.propose import look, propose, repair, validate
from ingot.agent.steps.review import (
    answer_pause,
    answer_review,
    compare,
    pause_question,
    review,
    review_question,
)

END: Final = "__end__"


def after_discover(state: State) -> Literal["sample", "review", "convert"]:
    """Go on to a sample; without a data file there is none, and the irrelevance is recorded."""
    if not state.get("proposal"):
        return "sample"
    return "review" if policy.asks_person(state) else "convert"


def after_validate(
    state: State,
) -> Literal["repair", "look", "compare", "review", "pause", "report"]:
    """Give problems back to a mapper that can learn from them, and look at a clean answer."""
    review = state.get("review")
    if review and review.decision == "edit":
        return "review"
    if state.get("stopped"):
        return "report" if state["order"].dry_run else "pause"
    if state["problems"]:
        return "repair" if policy.may_repair(state) else "compare"
    return "look" if policy.may_look(state) else "compare"


def after_look(state: State) -> Literal["propose", "compare"]:
    """Ask the model again only where there is something to look at."""
    return "propose" if state.get("looked") else "compare"


def after_pause(state: State) -> Literal["propose", "pause", "report"]:
    """Ask the model again, unless a person has ended the run."""
    review = state.get("review")
    if review is None:
        return "propose"
    return "pause" if review.decision == "again" else "report"


def after_compare(state: State) -> Literal["review", "convert", "report"]:
    """Report what cannot run, and review the rest; a sure irrelevance needs no review."""
    proposal = state.get("proposal")
    if proposal is None or proposal.decision == "unmappable":
        return "report"
    if proposal.decision == "irrelevant":
        doubt = policy.irrelevance_doubt(state)
        if policy.asks_person(state) or (doubt and policy.is_attended(state)):
            return "review"
        return "report" if doubt else "convert"
    return "review" if state.get("check") else "report"


def after_review(state: State) -> Literal["convert", "validate", "review", "report"]:
    """Convert only an approved proposal that can run, and validate an edited one first."""
    review, proposal = state.get("review"), state.get("proposal")
    decision = review.decision if review else "reject"
    if decision in ("edit", "again"):
        return "validate" if decision == "edit" else "review"
    runs = state.get("check") or (proposal and proposal.decision == "irrelevant")
    return "convert" if decision == "approve" and runs else "report"


def after_convert(state: State) -> Literal["review", "report"]:
    """Leave a gate on all rows to a person, where one can be asked."""
    asked = state.get("halted") and (not state["order"].yes or policy.is_attended(state))
    return "review" if asked else "report"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the course.

    Attributes:
        run: does it, and returns what it changes of the state.
        then: the step that follows, or what tells it from the state.
        ask: the question to a person that comes first, None where nobody has to be asked.
        answer: what an answer changes of the state, in place of `run`.
        reads: whether it, or who is asked, looks at the data, which is open then.
    """

    run: Callable[[State, Context], State]
    then: str | Callable[[State], str]
    ask: Callable[[State], Question | None] = lambda _: None
    answer: Callable[[State, Reply], State] = lambda _, __: {}
    reads: bool = False


def wait(_: State, __: Context) -> State:
    """Change nothing: a run goes on from here by an answer alone."""
    return {}


COURSE: Final = {
    "begin": Step(begin, "discover"),
    "discover": Step(discover, after_discover),
    "sample": Step(sample, "propose", reads=True),
    "propose": Step(propose, "validate", reads=True),
    "validate": Step(validate, after_validate, reads=True),
    "repair": Step(repair, "propose"),
    "look": Step(look, after_look, reads=True),
    "pause": Step(wait, after_pause, pause_question, answer_pause),
    "compare": Step(compare, after_compare, reads=True),
    "review": Step(review, after_review, review_question, answer_review, reads=True),
    "convert": Step(convert, after_convert, reads=True),
    "report": Step(report, END),
}
_PLACES: Final = {name: place for place, name in enumerate([*COURSE, END])}


@dataclass(kw_only=True, eq=False)
class Run:
    """A run: what it knows, the step before which it stands, and what its steps work with.

    Attributes:
        on_step: told the name of each step that is done.
    """

    state: State
    context: Context
    step: str = "begin"
    on_step: Callable[[str], object] = lambda _: None

    def apply(self, change: State) -> None:
        """Apply what the step has changed, and stand before the next one."""
        done, self.state = self.step, {**self.state, **change}
        then = COURSE[done].then
        self.step = then if isinstance(then, str) else then(self.state)
        self.on_step(done)


def advance(run: Run, until: str = END) -> State:
    """Do steps until the run stands before one, or one behind it, asks a person, or has ended."""
    while _PLACES[run.step] < _PLACES[until]:
        step = COURSE[run.step]
        if step.reads:
            run.context.open(run.state["order"])
        if step.ask(run.state) is not None:
            break
        run.apply(step.run(run.state, run.context))
    return run.state


def answer(run: Run, reply: Reply) -> State:
    """Take a person's answer to what the run asks, and advance it."""
    run.apply(COURSE[run.step].answer(run.state, reply))
    return advance(run)


def approve(run: Run, why: Safe = EMPTY_TEXT) -> None:
    """Have a run stand before its conversion, as one who may approve it has decided."""
    run.state = {**run.state, "review": Review(decision="approve", why=why)}
    run.step = "convert"


def end(run: Run) -> State:
    """Report a run as it stands: nobody is asked any more."""
    run.step = "report"
    return advance(run)
