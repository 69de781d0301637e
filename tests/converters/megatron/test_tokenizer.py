"""Tokenizer files: what loads, which id ends a document, and texts that cannot be encoded."""

import hashlib
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.tokenizer import encode, find_eod, load_tokenizer


def saved(folder: Path, tokens: list[str], special: list[str]) -> Path:
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}, unk_token="u"))
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_facts(tokenizer_file: Path) -> None:
    loaded = load_tokenizer(tokenizer_file)
    assert loaded.sha256 == hashlib.sha256(tokenizer_file.read_bytes()).hexdigest()
    assert (loaded.vocabulary, loaded.largest_id) == (320, 319)


def test_ids_are_those_of_the_library_whole_and_without_padding(tokenizer_file: Path) -> None:
    reference = Tokenizer.from_file(str(tokenizer_file))
    reference.no_truncation()
    reference.no_padding()
    texts = ["低头思故乡 " * 20, "", "a<|endoftext|>b", "\x00😀 \u202e"]
    encoded = encode(load_tokenizer(tokenizer_file).tokenizer, texts)
    expected = [reference.encode(t, add_special_tokens=False).ids for t in texts]
    assert encoded.ids.tolist() == [i for ids in expected for i in ids]
    assert encoded.lengths.tolist() == [len(ids) for ids in expected]
    assert 0 in expected[2]  # the text of a special token is that token
    assert encoded.failed == ()


def test_a_text_that_is_refused_does_not_stop_the_others(word_tokenizer_file: Path) -> None:
    tokenizer = load_tokenizer(word_tokenizer_file).tokenizer
    encoded = encode(tokenizer, ["known", "odd", "known known", "", "odd known"])
    assert encoded.ids.tolist() == [0, 0, 0]
    assert encoded.lengths.tolist() == [1, 2, 0]
    assert [place for place, _ in encoded.failed] == [1, 4]
    assert all("UNK" in problem for _, problem in encoded.failed)
    assert encode(tokenizer, []).ids.tolist() == []


@pytest.mark.parametrize(
    ("special", "eod"),
    [(["<s>", "</s>"], "</s>"), (["<|im_end|>", "<|endoftext|>"], "<|endoftext|>")],
)
def test_eod_is_the_first_known_special_token(tmp_path: Path, special: list[str], eod: str) -> None:
    loaded = load_tokenizer(saved(tmp_path, ["u", "w"], special))
    assert find_eod(loaded) == loaded.tokenizer.token_to_id(eod)


@pytest.mark.parametrize("eos", ["w", {"content": "w", "special": True}])
def test_the_configured_eos_token_comes_first(tmp_path: Path, eos: object) -> None:
    path = saved(tmp_path, ["u", "w"], ["</s>"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": eos}))
    assert find_eod(load_tokenizer(path)) == 1


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (None, "no special token that ends a document .it has <mask>"),
        ('{"eos_token": null}', "no special token that ends a document"),
        ('{"eos_token": "<eos>"}', "eos_token '<eos>' is not in tokenizer.json"),
        ("{", "not JSON"),
    ],
)
def test_no_eod_is_an_error_that_says_what_to_do(
    tmp_path: Path, config: str | None, problem: str
) -> None:
    path = saved(tmp_path, ["u", "</s>"], ["<mask>"])  # an ordinary word called </s> does not count
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(config)
    with pytest.raises(ConversionError, match=problem) as caught:
        find_eod(load_tokenizer(path))
    assert caught.value.hint


@pytest.mark.parametrize("content", [b"", b"{}", b'{"model": 3}', b"\x00\xff binary"])
def test_what_is_no_tokenizer_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ConversionError, match="not a tokenizer"):
        load_tokenizer(path)


def test_a_missing_file_a_folder_and_an_untrained_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="No such file"):
        load_tokenizer(tmp_path / "nowhere.json")
    with pytest.raises(ConversionError, match="no tokenizer.json and no tokenizer.model"):
        load_tokenizer(tmp_path)
    Tokenizer(models.BPE()).save(str(tmp_path / "empty.json"))
    with pytest.raises(ConversionError, match="has no tokens"):
        load_tokenizer(tmp_path / "empty.json")
