"""The gates of a mapping on rows, by name, as `validate` has them judged."""

from typing import Any

import pytest

from ingot.agent.judging import model_gates, policy
from ingot.agent.judging.trial import report_facts
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.state import Gate, State
from ingot.converters.json_yaml import decode
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import check_mapping
from ingot.converters.rows import BadRow
from ingot.converters.sources.sample import Sample, SampledBad, SampledRow


class Told(dict[str, Gate]):
    """Gates by name."""

    def states(self, *wanted: str) -> set[str]:
        """The names of those in one of the states."""
        return {name for name, one in self.items() if one.state in wanted}


@pytest.fixture
def told() -> Any:
    return _told


def _told(
    document: dict[str, Any],
    rows: list[Any],
    *,
    mapper: str = "llm",
    bad: int = 0,
    requested: str | None = None,
) -> Told:
    sample = Sample(
        rows=tuple(SampledRow(file="a", row=n, key=None, value=row) for n, row in enumerate(rows)),
        bad=(SampledBad(file="a", bad=BadRow(row=0, detail="cut", found="{")),) * bad,
        complete=True,
        total_rows=len(rows) + bad,
    )
    mapping = bind(document, rows)
    report = check_mapping(mapping, sample, source_name="a")
    problems = [*report.problems, *(model_gates.meta_faults(mapping) if mapper == "llm" else [])]
    decision = "pt" if mapping.kind == "pt" else "sft"
    proposal = Proposal(
        mapper=mapper, mapping=mapping, confidence=0.9, decision=decision, reason="because"
    )
    source = {"name": "my_set", "files": 1, "bytes": 1, "left_out": [], "left_out_count": 0}
    order = {"source": "s", "min_confidence": 0.0, "source_name": requested}
    state: State = {
        **decode(State, {"order": order, "source": source}),
        "proposal": proposal,
        "check": report_facts(report),
        "problems": tuple(problems),
    }
    return Told({one.name: one for one in policy.gates_of_state(state)})
