"""Which engine is chosen, and what is told about it."""

import pickle
from dataclasses import replace

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines import choice as choosing
from ingot.converters.megatron.engines.choice import choose_engine
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
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


@pytest.mark.more
def test_little_text_goes_to_the_reference_at_once(zoo, documents):
    trust(zoo["gpt2"])
    choice, told = chosen(zoo["gpt2"], "auto", documents, total_bytes=choosing.SMALL_BYTES - 1)
    assert choice.engine == "hf"
    assert "do not pay" in told["engine_chosen"]["why"]
    assert list(told) == ["engine_chosen"]


def test_the_first_engine_that_is_trusted_serves_and_none_is_opened(zoo, documents, monkeypatch):
    trust(zoo["gpt2"])
    monkeypatch.setattr(choosing, "probe_engine", None)
    choice, told = chosen(zoo["gpt2"], "auto", documents, total_bytes=choosing.SMALL_BYTES)
    assert (choice.engine, told["engine_chosen"]["engine"]) == ("gigatoken", "gigatoken")
    assert list(told) == ["engine_chosen"]


@pytest.mark.more
def test_an_engine_without_a_verdict_is_examined_where_there_is_much_text(zoo, documents):
    choice, told = chosen(
        zoo["byte_level"], "auto", documents, total_bytes=choosing.CHECKED_BYTES - 1
    )
    assert choice.engine == "hf"
    assert list(told) == ["engine_chosen"]
    choice, told = chosen(zoo["byte_level"], "auto", documents, total_bytes=choosing.CHECKED_BYTES)
    assert choice.engine == "gigatoken"
    assert told["engine_examined"]["passed"]
    choice, told = chosen(zoo["byte_level"], "auto", documents, total_bytes=choosing.SMALL_BYTES)
    assert choice.engine == "gigatoken"  # the verdict was kept
    assert list(told) == ["engine_chosen"]


def test_engines_that_failed_before_or_are_excluded_do_not_serve(zoo, documents):
    trust(zoo["gpt2"])
    excluded = frozenset({"gigatoken"})
    assert chosen(zoo["gpt2"], "auto", documents, exclude=excluded)[0].engine == "fastokens"
    assert chosen(zoo["gpt2"], "auto", documents, exclude=frozenset(FAST_ENGINES))[0].engine == "hf"
    trust(zoo["gpt2"], passed=False, problem="other ids on 'x'")
    choice, told = chosen(zoo["gpt2"], "auto", documents)
    assert choice.engine == "hf"
    assert told["engine_not_offered"]["why"] == "other ids on 'x'"


@pytest.mark.parametrize("wanted", ["auto", "gigatoken"])
def test_a_verdict_does_not_help_a_version_that_is_not_listed(zoo, documents, monkeypatch, wanted):
    trust(zoo["gpt2"])
    listed = replace(FAST_ENGINES["gigatoken"], proved=frozenset({"0.0"}))
    monkeypatch.setitem(FAST_ENGINES, "gigatoken", listed)
    choice, told = chosen(zoo["gpt2"], wanted, documents)
    assert choice.engine == ("fastokens" if wanted == "auto" else "hf")
    assert "is not one of the proved versions" in told["engine_not_offered"]["why"]


def test_a_tokenizer_that_no_engine_loads(zoo, documents):
    choice, told = chosen(zoo["word_piece"], "auto", documents)
    assert choice.engine == "hf"
    assert "cannot load" in told["engine_not_offered"]["why"]
    assert chosen(zoo["sp_uni"], "auto", documents)[0].engine == "sentencepiece"


@pytest.mark.more
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


@pytest.mark.more
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
