"""Options of a model: wrong ones are usage errors whoever is asked, right ones become budgets."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ingot.agent.model.budget import Limits, Price
from ingot.agent.model.endpoint import ModelSettings
from ingot.cli.app import app
from ingot.cli.model_options import run_context

WRONG = [
    (["--preset", "nobody"], "there are openai"),
    (["--llm-per-set", "calls=two"], "--llm-per-set: write"),
    (["--llm-per-set", "calls=1,calls=2"], "each once"),
    (["--llm-per-set", "rows=3"], "--llm-per-set: write"),
    (["--llm-per-set", ""], "--llm-per-set: write"),
    (["--llm-per-set", "cost=-1"], "--llm-per-set: write"),
    (["--llm-per-set", "seconds=nan"], "--llm-per-set: write"),
    (["--llm-price", "cheap"], "--llm-price: write"),
    (["--llm-price", "1,2,3"], "--llm-price: write"),
    (["--llm-max-cost", "nan"], "--llm-max-cost"),
    (["--llm-max-seconds", "inf"], "--llm-max-seconds takes"),
    (["--llm-max-calls", "-1"], "--llm-max-calls"),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    for service in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(service, raising=False)
    for name in ("INGOT_MODEL", "INGOT_PRESET"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("asked", ["mapping", "rules", "auto", "model"])
@pytest.mark.parametrize(("words", "told"), WRONG)
def test_a_wrong_option_is_refused_whoever_is_asked(
    tmp_path: Path, words: list[str], told: str, asked: str
) -> None:
    (tmp_path / "data.jsonl").write_text('{"text": "a text"}\n')
    (tmp_path / "mapping.json").write_text('{"version": 2, "text": "text"}')
    mappers = {
        "mapping": ["--mapping", str(tmp_path / "mapping.json")],
        "rules": ["--mapper", "rules"],
        "auto": [],
        "model": ["--model", "m", "--base-url", "http://localhost:1/v1"],
    }
    out = ["--out", str(tmp_path / "out")]
    given = ["run", str(tmp_path / "data.jsonl"), *out, "--yes", *mappers[asked], *words]
    ran = CliRunner().invoke(app, given)
    assert ran.exit_code == 2, ran.output
    assert told in ran.output
    assert not (tmp_path / "out").exists()


def test_a_wrong_preset_of_the_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_PRESET", "nobody")
    with pytest.raises(typer.BadParameter, match="there are openai"):
        run_context(ModelSettings(), "rules")


PRICE = Price(usd_per_million_in=1.0, usd_per_million_out=2.0)


def context(**given: Any) -> Any:
    settings = ModelSettings(model="m", base_url="http://localhost:1/v1", **given)
    return run_context(settings, "auto")


def test_limits_and_a_price_become_a_ledger() -> None:
    given = context(llm_max_calls=3, llm_per_set=Limits(calls=2, cost=0.05), llm_price=PRICE)
    ledger = given.asking.ledger
    assert ledger.cost(1_000_000, 1_000_000) == 3.0
    assert ledger.price.as_of is None
    assert ledger._limits == {"run": Limits(calls=3), "data set": Limits(calls=2, cost=0.05)}


def test_a_limit_in_money_needs_a_price_only_where_a_model_is_asked() -> None:
    with pytest.raises(typer.BadParameter, match="needs --llm-price"):
        context(llm_max_cost=1.0)
    assert run_context(ModelSettings(llm_max_cost=1.0), "auto").asking is None


def test_the_mapper_llm_needs_a_model_unless_a_mapping_is_given() -> None:
    with pytest.raises(typer.BadParameter, match="--mapper llm needs a model"):
        run_context(ModelSettings(), "llm")
    assert run_context(ModelSettings(), "file").asking is None
