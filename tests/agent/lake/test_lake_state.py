"""What a lake keeps for itself, where it is not what was written."""

from pathlib import Path

import pytest

from ingot.agent.lake.lake_state import LakeState
from ingot.converters.errors import OutputError


@pytest.mark.parametrize("facts", ["{", "[]", '{"place": 1}', "7"])
def test_damaged_facts_are_told_with_what_to_do(tmp_path: Path, facts: str) -> None:
    state = LakeState(tmp_path)
    with state.connected() as connection:
        connection.execute("INSERT INTO sets VALUES ('one', 'key', ?)", (facts,))
    with pytest.raises(OutputError, match=r"state\.sqlite: is damaged: .* \(delete .*\.ingot-lake"):
        state.sets()
