"""Which engine is chosen, and what is told about it."""

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import EngineChoice
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    Verdict,
    keep_verdict,
    make_verdict_case,
    recall_verdict,
)
from ingot.converters.megatron.engines.race import choose_engine

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
    assert EngineChoice.from_document(choice.to_document()) == choice
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
    trust(zoo["gpt2"])
    between = 16 << 20
    assert (
        "mb_per_second"
        in chosen(zoo["gpt2"], "auto", documents, total_bytes=between)[1]["engine_chosen"]
    )
    assert chosen(zoo["gpt2"], "auto", documents, total_bytes=between)[0].rates


def test_the_fastest_of_the_trusted_wins(zoo, documents):
    trust(zoo["gpt2"])
    choice, told = chosen(zoo["gpt2"], "auto", documents)
    assert set(choice.rates) == {"hf", *FAST_ENGINES}
    assert choice.rates[choice.engine] == max(choice.rates.values())
    assert told["engine_chosen"]["engine"] == choice.engine
    assert "engine_examined" not in told  # the verdicts were kept


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
    trust(zoo["gpt2"], passed=True, denied=((0x17F, 0x17F),))
    choice, _ = chosen(zoo["gpt2"], "fastokens", documents, total_bytes=1)
    assert (choice.engine, choice.denied) == ("fastokens", ((0x17F, 0x17F),))
    assert chosen(zoo["gpt2"], "hf", documents)[0].engine == "hf"
    assert chosen(zoo["sp_bpe"], "hf", documents)[0].engine == "sentencepiece"
    with pytest.raises(ConversionError, match="cannot load"):
        chosen(zoo["word_piece"], "gigatoken", documents)
    trust(zoo["gpt2"], passed=False, problem="other ids on 'x'")
    with pytest.raises(ConversionError, match="other ids on 'x'"):
        chosen(zoo["gpt2"], "gigatoken", documents)


def test_an_engine_that_is_not_installed_is_named_with_its_extra(zoo, documents, plant):
    def opened(loaded, *, plain, threads):
        raise ModuleNotFoundError("No module named 'planted'")

    fast = plant("x")
    FAST_ENGINES["planted"] = type(fast)(
        name="planted", distribution="missing", open=opened, knows_plain=True, grows=False
    )
    with pytest.raises(ConversionError, match="install the extra fast"):
        chosen(zoo["gpt2"], "planted", documents)
    assert chosen(zoo["gpt2"], "auto", documents)[0].engine == "hf"


def test_what_differs_on_the_users_text_is_out_or_denied(zoo, documents, plant):
    fast = plant("，")  # in the golden documents
    case = make_verdict_case(fast, zoo["gpt2"], plain=False)
    trust(zoo["gpt2"])
    chosen(zoo["gpt2"], "auto", documents)
    verdict = recall_verdict(case)
    assert verdict is not None
    assert verdict.denied == ((ord("，"), ord("，")),)
    fast = plant("the")
    trust(zoo["gpt2"])
    choice, told = chosen(zoo["gpt2"], "auto", documents)
    assert choice.engine == "hf"
    assert "'the'" in told["engine_not_offered"]["why"]


@pytest.mark.long
def test_the_gate_finds_a_planted_error_and_keeps_that(zoo, documents, plant):
    plant("\U0001f6f8")
    choice, told = chosen(zoo["byte_level"], "planted", documents)
    assert choice.denied == ((0x1F6F8, 0x1F6F8),)
    assert told["engine_examined"]["denied"] == 1
    assert told["engine_examined"]["ranges"] == ["U+1F6F8"]
    assert "engine_examined" not in chosen(zoo["byte_level"], "planted", documents)[1]
