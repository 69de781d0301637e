"""The check of special tokens: missing ones, other ids, wrong files, stated BOS and EOS."""

import json
from pathlib import Path

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.tokenizer import (
    TokenizerFile,
    check_special,
    load_tokenizer,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "tokenize"


@pytest.fixture
def loaded(tokenizer_file: Path) -> TokenizerFile:
    """It has <|endoftext|> 0, <|im_start|> 1, <|im_end|> 2, and 317 others."""
    return load_tokenizer(str(tokenizer_file))


def written(folder: Path, content: object) -> Path:
    path = folder / "special.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_what_is_as_expected_passes(loaded: TokenizerFile, tmp_path: Path) -> None:
    path = written(tmp_path, {"<|im_start|>": 1, "<|im_end|>": 2, "a": loaded_id(loaded, "a")})
    check = check_special(loaded, path, strict=True)
    assert check.to_document() == {
        "tokenizer_path": loaded.given,
        "strict": True,
        "checked": 3,
        "missing": [],
        "mismatched": {},
    }
    assert list(check.warnings()) == []


def loaded_id(loaded: TokenizerFile, token: str) -> int:
    return int(json.loads(loaded.data)["model"]["vocab"][token])


def test_differences_are_warnings_and_stand_in_the_document(
    loaded: TokenizerFile, tmp_path: Path
) -> None:
    path = written(tmp_path, {"<|im_start|>": 73441, "<|tool_call|>": 9, "<|im_end|>": 2})
    check = check_special(loaded, path, strict=False)
    assert check.to_document() == {
        "tokenizer_path": loaded.given,
        "strict": False,
        "checked": 3,
        "missing": ["<|tool_call|>"],
        "mismatched": {"<|im_start|>": {"expected_id": 73441, "actual_id": 1}},
    }
    assert list(check.warnings()) == [
        ("special_token_missing", {"token": "<|tool_call|>", "expected_id": 9, "actual_id": None}),
        (
            "special_token_mismatch",
            {"token": "<|im_start|>", "expected_id": 73441, "actual_id": 1},
        ),
    ]


def test_strict_names_every_difference_and_the_way_to_mend_it(
    loaded: TokenizerFile, tmp_path: Path
) -> None:
    path = written(tmp_path, {"<|im_start|>": 7, "<|tool_call|>": 9, "<|im_end|>": 2})
    with pytest.raises(ConversionError) as caught:
        check_special(loaded, path, strict=True)
    text = str(caught.value)
    assert "2 of 3 special tokens differ" in text
    assert "'<|tool_call|>' is missing, expected 9; '<|im_start|>' is 1, expected 7" in text
    assert "added_tokens" in text
    assert "repository" in text


def test_without_a_file_nothing_is_checked(loaded: TokenizerFile) -> None:
    check = check_special(loaded, None, strict=True)
    assert check.to_document()["checked"] == 0
    assert list(check.warnings()) == []


def test_a_sentencepiece_piece_that_is_none_is_missing_and_not_the_unknown_one(
    tmp_path: Path,
) -> None:
    model = load_tokenizer(GOLDEN / "sp_bpe.model")
    path = written(tmp_path, {"<s>": 1, "</s>": 2, "<unk>": 0, "<|nowhere|>": 0, "": 0})
    check = check_special(model, path, strict=False)
    assert list(check.missing) == ["<|nowhere|>", ""]
    assert check.mismatched == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON: nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "a number of 5,000 digits, which cannot be an id"),
        ('{"a": ' + "9" * 100 + "}", "the id of 'a' is 999"),
        ("[]", "not a JSON object"),
        ("7", "not a JSON object"),
        ('{"a": "1"}', "the id of 'a' is \"1\""),
        ('{"a": 1.0}', "the id of 'a' is 1.0"),
        ('{"a": NaN}', "the id of 'a' is NaN"),
        ('{"a": true}', "the id of 'a' is true"),
        ('{"a": null}', "the id of 'a' is null"),
        ('{"a": -1}', "the id of 'a' is -1"),
        ('{"a": 2147483648}', "the id of 'a' is 2147483648"),
        ('{"a": {"id": 1}}', "the id of 'a' is"),
        ('{"a": 1, "b": 2, "a": 1}', "'a' stands in it twice"),
        ('{"\\ud800": 1}', "is not valid Unicode"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_what_is_wrong(
    loaded: TokenizerFile, tmp_path: Path, content: str, problem: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        check_special(loaded, written(tmp_path, content), strict=False)
    assert problem in caught.value.problem
    assert caught.value.where.endswith("special.json")
    assert caught.value.hint


def test_a_missing_and_an_enormous_file(loaded: TokenizerFile, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="No such file"):
        check_special(loaded, tmp_path / "nowhere.json", strict=False)
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(ConversionError, match="larger than 4 MiB"):
        check_special(loaded, path, strict=False)


@pytest.mark.parametrize("option", ["bos_id", "eos_id"])
@pytest.mark.parametrize("number", [-1, 320, 1 << 40])
def test_a_stated_id_outside_the_vocabulary_is_an_error(
    loaded: TokenizerFile, option: str, number: int
) -> None:
    with pytest.raises(ConversionError, match=f"has no id {number}") as caught:
        check_special(loaded, None, strict=False, **{option: number})
    assert f"`{option}`" in caught.value.problem
    assert "0 to 319" in caught.value.hint


def test_a_stated_id_that_is_no_special_token_is_a_warning(loaded: TokenizerFile) -> None:
    check = check_special(loaded, None, strict=True, bos_id=0, eos_id=100)
    assert list(check.warnings()) == [
        ("special_id_not_special", {"option": "eos_id", "actual_id": 100})
    ]
