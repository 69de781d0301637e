"""The LLM mapper: shows a data set to a model behind an OpenAI-compatible endpoint.

The model has no tools and returns data only. What it returns is parsed, validated and lowered here;
the graph runs it on the sample and asks again, with the problems, at most twice.
"""

import secrets
from collections.abc import Sequence
from functools import partial

from ingot.agent.mappers import lowering, reply, shown
from ingot.agent.mappers.endpoint import Completion, Endpoint, Message, ask
from ingot.agent.mappers.proposal import Evidence, Proposal, Request
from ingot.agent.mappers.turn import History, Turn, Turner
from ingot.agent.prompting import prompt, prompts_hash
from ingot.converters import contracts
from ingot.converters.errors import MappingError, Problem
from ingot.converters.profile import Profile, profile
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample

NAME = "llm"
MOST_SAID = 6000
MOST_PROBLEMS = 5


def mapper(endpoint: Endpoint) -> Turner:
    """The mapper that asks this endpoint."""
    return partial(_turn, endpoint)


def _turn(
    endpoint: Endpoint, source: Source, sample: Sample, request: Request, history: History
) -> Turn:
    """One question and its answer.

    Raises:
        ModelError: the endpoint gave no reply.
    """
    messages = conversation(source, sample, request, history)
    completion = ask(endpoint, messages, contracts.schema("llm"))
    said = completion.text[:MOST_SAID]
    turn = partial(
        Turn,
        mapper=NAME,
        said=said,
        again=True,
        usage=_usage(endpoint, completion),
        provenance={"model": endpoint.model, "prompt_sha256": prompts_hash("map", "dataset")},
    )
    try:
        answer = reply.read(completion.text, cut_off=completion.cut_off)
        _check_mode(answer["decision"], request.mode)
        return turn(proposal=_proposal(answer, endpoint))
    except MappingError as error:
        return turn(proposal=None, problems=error.problems)


def conversation(
    source: Source, sample: Sample, request: Request, history: History
) -> list[Message]:
    """What is sent: the task, the data set, the former answers and what was wrong with them."""
    facts = profile(sample)
    messages = [
        _message("system", prompt("map").render(schema=_schema_text())),
        _message("user", _question(source, sample, request, facts)),
    ]
    for attempt in (one for one in history if one.mapper == NAME):
        messages.append(_message("assistant", attempt.said or "{}"))
        messages.append(_message("user", _correction(attempt.problems, facts)))
    return messages


def _question(source: Source, sample: Sample, request: Request, facts: Profile) -> str:
    return prompt("dataset").render(
        mode=request.mode,
        language=request.language or "not told",
        # Data cannot close a fence that it cannot guess.
        fence=f"===== data {secrets.token_hex(8)} =====",
        data=shown.dataset(source, sample, facts),
    )


def _correction(problems: Sequence[Problem], facts: Profile) -> str:
    lines = [f"- {shown.clean(str(one))[:400]}" for one in problems[:MOST_PROBLEMS]]
    return prompt("repair").render(problems="\n".join(lines), paths=shown.paths(facts))


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _schema_text() -> str:
    return contracts.schema_text("llm").decode()


def _check_mode(decision: str, mode: str) -> None:
    """The mode that the user asked for wins.

    Raises:
        MappingError: the model decided for the other one.
    """
    if mode != "auto" and decision in ("pt", "sft") and decision != mode:
        expected = f"{mode}, since the user asked for it, or irrelevant or unmappable"
        raise MappingError(reply.WHERE, (Problem("/decision", "mode", expected, decision),))


def _proposal(answer: dict[str, Json], endpoint: Endpoint) -> Proposal:
    decision = answer["decision"]
    mapping = lowering.lower(answer) if decision in ("pt", "sft") else None
    why = f"said by {endpoint.model}"
    evidence = Evidence(
        target="decision", choice=decision, why=why, confidence=answer["confidence"]
    )
    return Proposal(
        decision=decision,
        mapping=mapping,
        confidence=answer["confidence"],
        reason=shown.clean(answer["reason"])[:500],
        evidence=(evidence,),
        mapper=NAME,
    )


def _usage(endpoint: Endpoint, completion: Completion) -> dict[str, Json]:
    return {
        "calls": 1,
        "chars_sent": completion.chars_sent,
        "tokens_in": completion.tokens_in,
        "tokens_out": completion.tokens_out,
        "host": endpoint.host,
        "model": endpoint.model,
        "format": completion.format,
    }
