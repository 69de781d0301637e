"""What a run over a lake asks a model: within the budgets of the run, and not at all in vain."""

import json
import shutil
from pathlib import Path

import pytest

from ingot.agent.lake.lake_state import LakeState
from ingot.agent.lake.shared_model import LakeLedger
from ingot.agent.model.budget import Limits, Spent
from ingot.converters.errors import BudgetReached
from tests.agent.lake.truth import Lake, command, generated, script, settings
from tests.command_line import ingot


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Only what the rules cannot settle: several data sets of several shapes."""
    made = generated(tmp_path / "lake")
    for folder in made.root.iterdir():
        if folder.name != "unknown":
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    return made


def ran(lake: Lake, out: Path, *more: str, url: str) -> dict:
    words = command(lake.root, out, "--json", *more, url=url)[3:]
    return json.loads(ingot(*words, **settings(out.parent / "home")).stdout)


@pytest.mark.more
def test_processes_that_ask_at_once_pass_no_budget_together(lake, tmp_path):
    served = script("served")
    with served.serving(served.Model(lake.replies(), latency=0.3)) as model:
        told = ran(lake, tmp_path / "out", "--llm-max-calls", "1", "--jobs", "4", url=model.url)
        assert len(model.calls) == 1
        assert told["spent"]["calls"] == 1
        assert told["statuses"]["postponed"] >= 1
        rested = [one for one in told["sets"] if one["status"] == "postponed"]
        assert all("1 of 1 calls" in one["why"] for one in rested)

        told = ran(lake, tmp_path / "out", "--llm-max-calls", "90", "--jobs", "4", url=model.url)
        assert {
            one["name"]: one["why"] for one in told["sets"] if one["status"] != "converted"
        } == {}
        assert told["spent"]["calls"] == len(model.calls) - 1  # each run has its own budget
        assert max(model.told().values()) == 1


@pytest.mark.more
def test_a_model_that_is_gone_lets_data_sets_rest_until_it_is_back(lake, tmp_path):
    served = script("served")
    with served.serving(served.Model(lake.replies())) as model:
        url = model.url
    told = ran(lake, tmp_path / "out", "--jobs", "2", url=url)
    assert set(told["statuses"]) == {"postponed"}
    assert all("could not be asked" in one["why"] for one in told["sets"])
    with served.serving(served.Model(lake.replies())) as model:
        told = ran(lake, tmp_path / "out", "--jobs", "2", url=model.url)
    assert set(told["statuses"]) == {"converted"}


@pytest.mark.more
def test_what_a_model_cannot_say_is_asked_once_and_waits(lake, tmp_path):
    served = script("served")
    with served.serving(served.Model([])) as model:
        told = ran(lake, tmp_path / "out", "--jobs", "2", url=model.url)
        assert set(told["statuses"]) == {"waiting"}
        followers = [one for one in told["sets"] if "has the same shape" in one["why"]]
        assert followers
        asked = len(model.calls)
        assert ran(lake, tmp_path / "out", "--jobs", "2", url=model.url)["worked"] == []
        assert len(model.calls) == asked


def test_what_a_request_spent_counts_for_its_data_set_and_for_the_run(tmp_path):
    state = LakeState(tmp_path)
    ledger = LakeLedger(state, run=Limits(calls=5), data_set=Limits(calls=1), price=None)
    ledger.open_set(Spent())
    ledger.check(10, 10)
    ledger.add(Spent(calls=1, tokens_in=10, tokens_out=10))
    assert (ledger.data_set.calls, ledger.run.calls) == (1, 1)
    with pytest.raises(BudgetReached, match="1 of 1 calls"):
        ledger.check(10, 10)
    ledger.open_set(Spent())
    ledger.check(10, 10)
