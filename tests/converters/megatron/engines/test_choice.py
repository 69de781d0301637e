"""Which engine is chosen, and what is told about it."""

import pickle
from dataclasses import replace

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines import choice as choosing
from ingot.converters.megatron.engines.choice import choose_engine
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    EngineSpeed,
    Verdict,
    keep_verdict,
    make_verdict_case,
    recall_verdict,
)

MUCH = 1 << 40


def chosen(loaded, wanted, sample, *, total_bytes=MUCH, plain=False, exclude=frozenset()):
    told = []
    choice = choose_engine(
        loaded,
        wanted,
        sample,
        plain=plain,
        total_bytes=total_bytes,
        exclude=exclude,
        threads=1,
        monitor=told.append,
    )
    assert pickle.loads(pickle.dumps(choice)) == choice
    return choice, {message["event"]: message for message in told}


def trust(loaded, *, plain=False, **verdict):
    for fast in FAST_ENGINES.values():
        keep_verdict(
            make_verdict_case(fast, loaded, plain=plain), Verdict(**(verdict or {"passed": True}))
        )


def test_little_text_goes_to_the_reference_at_once(zoo, documents):
    choice, told = chosen(zoo["gpt2"], "auto", documents, total_bytes=1 << 20)
    assert choice.engine == "hf"
    assert "do not pay" in told["engine_chosen"]["why"]
    assert list(told) == ["engine_chosen"]


def test_the_engine_that_is_through_first_wins(zoo, documents, monkeypatch):
    # 10 s for the reference, 1.1 s for gigatoken: what fastokens can do does not matter any more
    speed = EngineSpeed(opening=0.1, rate=10.0, reference=1.0)
    loaded = zoo["gpt2"]
    case = make_verdict_case(FAST_ENGINES["gigatoken"], loaded, plain=False)
    keep_verdict(case, Verdict(passed=True, speed=speed))
    monkeypatch.setattr(choosing, "probe_engine", None)  # none is opened
    choice, told = chosen(loaded, "auto", documents, total_bytes=10_000_000)
    assert choice.rates == {"hf": 1.0, "gigatoken": 10.0}
    assert (choice.engine, told["engine_chosen"]["engine"]) == ("gigatoken", "gigatoken")
    assert list(told) == ["engine_chosen"]
    assert chosen(loaded, "auto", documents, total_bytes=50_000)[0].engine == "hf"


def test_engines_are_timed_once_for_all_later_builds(zoo, documents, monkeypatch):
    trust(zoo["gpt2"])
    choice, told = chosen(zoo["gpt2"], "auto", documents)
    assert set(choice.rates) == {"hf", *FAST_ENGINES}
    assert choice.rates[choice.engine] == max(choice.rates.values())
    assert "engine_examined" not in told  # the verdicts were kept
    monkeypatch.setattr(choosing, "probe_engine", None)
    assert chosen(zoo["gpt2"], "auto", documents)[0] == choice
    for fast in FAST_ENGINES.values():
        kept = recall_verdict(make_verdict_case(fast, zoo["gpt2"], plain=False))
        assert kept.speed.opening > 0
        assert min(kept.speed.rate, kept.speed.reference) > 0


def test_an_engine_is_examined_where_it_can_save_time(zoo, documents, monkeypatch):
    monkeypatch.setattr(choosing, "EXAMINED_SECONDS", 1e9)
    choice, told = chosen(zoo["gpt2"], "auto", documents, total_bytes=choosing.SMALL_BYTES)
    assert list(told) == ["engine_chosen"]
    assert set(choice.rates) == {"hf"}
    monkeypatch.setattr(choosing, "EXAMINED_SECONDS", 0.0)
    choice, told = chosen(zoo["gpt2"], "auto", documents, total_bytes=choosing.SMALL_BYTES)
    assert "engine_examined" in told
    assert len(choice.rates) > 1


def test_engines_that_failed_before_or_are_excluded_are_not_raced(zoo, documents):
    trust(zoo["gpt2"])
    assert (
        "gigatoken"
        not in chosen(zoo["gpt2"], "auto", documents, exclude=frozenset({"gigatoken"}))[0].rates
    )
    assert chosen(zoo["gpt2"], "auto", documents, exclude=frozenset(FAST_ENGINES))[0].engine == "hf"
    trust(zoo["gpt2"], passed=False, problem="other ids on 'x'")
    choice, told = chosen(zoo["gpt2"], "auto", documents)
    assert choice.engine == "hf"
    assert told["engine_not_offered"]["why"] == "other ids on 'x'"


def test_a_tokenizer_that_no_engine_loads(zoo, documents):
    choice, told = chosen(zoo["word_piece"], "auto", documents)
    assert choice.engine == "hf"
    assert "cannot load" in told["engine_not_offered"]["why"]
    assert chosen(zoo["sp_uni"], "auto", documents)[0].engine == "sentencepiece"


def test_an_engine_that_was_asked_for(zoo, documents):
    trust(zoo["gpt2"])
    choice, _ = chosen(zoo["gpt2"], "fastokens", documents, total_bytes=1)
    assert choice.engine == "fastokens"
    assert chosen(zoo["gpt2"], "hf", documents)[0].engine == "hf"
    assert chosen(zoo["sp_bpe"], "hf", documents)[0].engine == "sentencepiece"
    with pytest.raises(ConversionError, match="cannot load"):
        chosen(zoo["word_piece"], "gigatoken", documents)
    trust(zoo["gpt2"], passed=False, problem="other ids on 'x'")
    choice, told = chosen(zoo["gpt2"], "gigatoken", documents)
    assert choice.engine == "hf"
    assert told["engine_not_offered"]["why"] == "other ids on 'x'"


def test_an_engine_that_is_not_installed_is_named_with_its_extra(zoo, documents, plant):
    def opened(loaded, *, plain, threads):
        raise ModuleNotFoundError("No module named 'planted'")

    fast = plant("x")
    FAST_ENGINES["planted"] = replace(fast, distribution="missing", open=opened)
    with pytest.raises(ConversionError, match="install the extra `fast`"):
        chosen(zoo["gpt2"], "planted", documents)
    assert chosen(zoo["gpt2"], "auto", documents)[0].engine == "hf"


def test_what_differs_on_the_users_text_is_out(zoo, documents, plant, monkeypatch):
    fast = plant("the")
    monkeypatch.setattr(choosing, "check_texts", lambda loaded: iter(()))
    choice, told = chosen(zoo["gpt2"], "auto", documents)
    assert choice.engine == "hf"
    assert "other ids than the reference" in told["engine_not_offered"]["why"]
    kept = recall_verdict(make_verdict_case(fast, zoo["gpt2"], plain=False))
    assert kept is not None
    assert not kept.passed


@pytest.mark.parametrize("wanted", ["auto", "planted"])
def test_a_version_that_is_not_proved_is_not_taken(zoo, documents, plant, wanted):
    fast = plant("zyzzyva")
    FAST_ENGINES["planted"] = replace(fast, proved=frozenset({"0.0"}))
    choice, told = chosen(zoo["gpt2"], wanted, documents)
    assert choice.engine == "hf"
    assert "is not one of the proved versions" in told["engine_not_offered"]["why"]
    assert told["engine_not_offered"]["level"] == "warn"
    assert "engine_examined" not in told


def test_a_tokenizer_without_a_verdict_is_checked_once(zoo, documents, plant, home):
    fast = plant("zyzzyva")  # in no text of the checks, nor in the documents
    choice, told = chosen(zoo["byte_level"], "planted", documents)
    assert choice.engine == "planted"
    assert told["engine_examined"]["passed"]
    assert told["engine_examined"]["seconds"] < 60
    assert "engine_examined" not in chosen(zoo["byte_level"], "planted", documents)[1]
    plant("camelCase")
    (path,) = (home / "engines").iterdir()
    path.unlink()
    choice, told = chosen(zoo["byte_level"], "planted", documents)
    assert choice.engine == "hf"
    assert not told["engine_examined"]["passed"]
    assert fast.name in told["engine_chosen"]["why"]


def test_the_checks_end_in_time(zoo, documents, plant, monkeypatch):
    plant("zyzzyva")
    monkeypatch.setattr(choosing, "CHECK_SECONDS", 0.0)
    runs = []

    def counted(loaded):
        for number in range(100):
            runs.append(number)
            yield documents

    monkeypatch.setattr(choosing, "check_texts", counted)
    assert chosen(zoo["byte_level"], "planted", documents)[0].engine == "planted"
    assert len(runs) == 0


def test_a_check_that_cannot_be_kept_still_counts(zoo, documents, plant, home):
    home.write_text("a file where the folder should be")
    plant("camelCase")
    assert chosen(zoo["byte_level"], "auto", documents)[0].engine == "hf"
