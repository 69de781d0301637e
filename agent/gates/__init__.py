"""What must hold before a proposal is converted without a person, with its figures.

`gate` is one gate, `judging` all of them together. What they look at: `sample`, the mapping's run
on the sample; `by_model`, a model's mapping, by its `texts` and literals, its `roles`, and what it
takes of other `records`. `docs/gates.md` lists them.
"""

from ingot.agent.gates.gate import Gate
from ingot.agent.gates.judging import (
    failed,
    gates,
    needs_person,
    of_state,
    reserved,
    unsure,
)
from ingot.agent.mappers.proposal import PERSONS

__all__ = ["PERSONS", "Gate", "failed", "gates", "needs_person", "of_state", "reserved", "unsure"]
