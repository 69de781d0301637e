"""Tokenizer files: what loads and what does not, EOD, frames, decoding; texts that fail."""

import contextlib
import gzip
import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer, models, processors

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.tokenizer import (
    decode_ids,
    find_eod,
    load_tokenizer,
    token_id,
    tokenizer_frame,
)
from ingot.converters.megatron.tokenizer_files import load_huggingface

GOLDEN = Path(__file__).parents[2] / "golden" / "tokenize"


def saved(folder: Path, tokens: list[str], special: list[str]) -> Path:
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}, unk_token="u"))
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def test_facts(tokenizer_file: Path) -> None:
    loaded = load_tokenizer(tokenizer_file)
    assert loaded.sha256 == hashlib.sha256(tokenizer_file.read_bytes()).hexdigest()
    assert (loaded.vocabulary, loaded.largest_id) == (320, 319)


@pytest.mark.parametrize(
    ("special", "eod"),
    [(["<s>", "</s>"], "</s>"), (["<|im_end|>", "<|endoftext|>"], "<|endoftext|>")],
)
def test_eod_is_the_first_known_special_token(tmp_path: Path, special: list[str], eod: str) -> None:
    loaded = load_tokenizer(saved(tmp_path, ["u", "w"], special))
    assert find_eod(loaded) == load_huggingface(loaded.data).token_to_id(eod)


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


def test_an_error_does_not_name_a_thousand_special_tokens(tmp_path: Path) -> None:
    path = saved(tmp_path, ["u"], [f"<reserved {number}>" for number in range(1000)])
    with pytest.raises(ConversionError, match=r"no special token .* \.\.\.") as caught:
        find_eod(load_tokenizer(path))
    assert len(caught.value.problem) < 1000


def test_the_eod_of_a_sentencepiece_model_is_its_eos(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "sp_uni.model", tmp_path / "tokenizer.model")
    assert find_eod(load_tokenizer(tmp_path)) == 2
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<|user|>"}')
    assert find_eod(load_tokenizer(tmp_path)) == 3
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<|nowhere|>"}')
    with pytest.raises(ConversionError, match=r"is not in tokenizer\.model"):
        find_eod(load_tokenizer(tmp_path))


def test_a_sentencepiece_model(tmp_path: Path) -> None:
    loaded = load_tokenizer(GOLDEN / "sp_bpe.model")
    assert (loaded.kind, loaded.vocabulary, loaded.largest_id) == ("sentencepiece", 8000, 7999)
    assert loaded.special == {"<s>": 1, "</s>": 2}
    assert (loaded.config, loaded.chat_template) == ({}, None)
    assert [token_id(loaded, text) for text in ("<s>", "▁the", "no such piece", "<unk>")] == [
        1,
        SentencePieceProcessor(model_file=str(GOLDEN / "sp_bpe.model")).piece_to_id("▁the"),
        None,
        0,
    ]


def test_a_model_without_control_symbols_has_no_frame_and_no_eod(tmp_path: Path) -> None:
    prefix = tmp_path / "bare"
    SentencePieceTrainer.train(
        sentence_iterator=iter(["one two three four", "five six"] * 20),
        model_prefix=str(prefix),
        vocab_size=40,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    loaded = load_tokenizer(prefix.with_suffix(".model"))
    assert loaded.special == {}
    assert tokenizer_frame(loaded) == ([], [])
    with pytest.raises(ConversionError, match="no special token that ends a document"):
        find_eod(loaded)


def test_content_decides_and_not_the_name(tokenizer_file: Path, tmp_path: Path) -> None:
    shutil.copy(tokenizer_file, tmp_path / "a.model")
    shutil.copy(GOLDEN / "sp_bpe.model", tmp_path / "b.json")
    (tmp_path / "c.json").write_bytes(b" \n\t" + tokenizer_file.read_bytes())
    kinds = [load_tokenizer(tmp_path / name).kind for name in ("a.model", "b.json", "c.json")]
    assert kinds == ["huggingface", "sentencepiece", "huggingface"]


def test_of_a_folder_tokenizer_json_comes_first(tokenizer_file: Path, tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "sp_bpe.model", tmp_path / "tokenizer.model")
    assert load_tokenizer(str(tmp_path)).path == tmp_path / "tokenizer.model"
    shutil.copy(tokenizer_file, tmp_path / "tokenizer.json")
    loaded = load_tokenizer(str(tmp_path))
    assert (loaded.path, loaded.given) == (tmp_path / "tokenizer.json", str(tmp_path))


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model"])
def test_it_travels_between_processes(tokenizer_file: Path, tmp_path: Path, name: str) -> None:
    shutil.copy(tokenizer_file, tmp_path / "tokenizer.json")
    shutil.copy(GOLDEN / "sp_bpe.model", tmp_path / "tokenizer.model")
    loaded = load_tokenizer(tmp_path / name)
    huge = len(loaded.data)
    again = pickle.loads(pickle.dumps(loaded))
    assert again == loaded
    assert len(repr(loaded)) < 1000 < huge
    assert tokenizer_frame(again) == tokenizer_frame(loaded)


def test_ids_with_holes(tmp_path: Path) -> None:
    words = Tokenizer(models.WordLevel({"u": 0, "far": 90_000}, unk_token="u"))
    words.add_special_tokens(["</s>"])
    words.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(tmp_path)
    assert (loaded.vocabulary, loaded.largest_id) == (3, 90_000)
    assert decode_ids(loaded, [0, 500, 90_000]) == "u<id 500>far"


@pytest.mark.parametrize("declared", [0, 1, 77])
def test_added_tokens_have_the_ids_that_the_library_gives(tmp_path: Path, declared: int) -> None:
    """Those of the file may collide, or lie outside."""
    document = word_document(["u", "w"])
    document["added_tokens"] = [added("<x>", declared), added("<y>", declared + 1)]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    loaded = load_tokenizer(path)
    library = Tokenizer.from_file(str(path))
    assert loaded.special == {text: library.token_to_id(text) for text in ("<x>", "<y>")}
    assert loaded.largest_id == max(library.get_vocab(with_added_tokens=True).values())
    for text in ("<x>", "<y>"):
        assert library.encode(text).ids == [token_id(loaded, text)]


def word_document(tokens: list[str]) -> dict[str, Any]:
    model = {"type": "WordLevel", "vocab": {t: i for i, t in enumerate(tokens)}, "unk_token": "u"}
    return {"version": "1.0", "added_tokens": [], "model": model}


def added(text: str, number: int) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": text, "special": True, **flags}


TEMPLATES: dict[str, tuple[Any, tuple[list[int], list[int]]]] = {
    "none": (None, ([], [])),
    "byte level": (processors.ByteLevel(), ([], [])),
    "bos": (
        processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)]),
        ([2], []),
    ),
    "bos and eos twice": (
        processors.TemplateProcessing(
            single="<s> $A </s> </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
        ),
        ([2], [3, 3]),
    ),
    "equal ends": (
        processors.TemplateProcessing(single="<s> $A <s>", special_tokens=[("<s>", 2)]),
        ([2], [2]),
    ),
    "bert": (processors.BertProcessing(("</s>", 3), ("<s>", 2)), ([2], [3])),
    "roberta": (processors.RobertaProcessing(("</s>", 3), ("<s>", 2)), ([2], [3])),
    "sequence": (
        processors.Sequence(
            [
                processors.ByteLevel(),
                processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 3)]),
            ]
        ),
        ([], [3]),
    ),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_frame(tmp_path: Path, name: str) -> None:
    processor, expected = TEMPLATES[name]
    assert tokenizer_frame(load_tokenizer(framed(tmp_path, processor))) == expected


def framed(folder: Path, processor: Any) -> Path:
    tokenizer = Tokenizer(models.WordLevel({"u": 0, "w": 1}, unk_token="u"))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    if processor is not None:
        tokenizer.post_processor = processor
    tokenizer.enable_truncation(2)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.mark.parametrize(
    ("template", "number"), [("$A <s> $A", 2), ("<s>", 2), ("$A <s>", 4), ("$A <s>", 1 << 20)]
)
def test_a_processor_that_does_more_is_said_to(tmp_path: Path, template: str, number: int) -> None:
    processor = processors.TemplateProcessing(single=template, special_tokens=[("<s>", number)])
    with pytest.raises(ConversionError, match="constant ids around a text") as caught:
        tokenizer_frame(load_tokenizer(framed(tmp_path, processor)))
    assert "`bos_id`" in caught.value.hint


def test_the_frame_of_a_tokenizer_that_knows_one_word(word_tokenizer_file: Path) -> None:
    assert tokenizer_frame(load_tokenizer(word_tokenizer_file)) == ([], [])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, ([1], [2])),
        ({"add_bos_token": True, "add_eos_token": False}, ([1], [])),
        ({"add_bos_token": False}, ([], [2])),
    ],
)
def test_the_frame_of_a_model_is_its_bos_and_eos(
    tmp_path: Path, config: object, expected: tuple[list[int], list[int]]
) -> None:
    shutil.copy(GOLDEN / "sp_bpe.model", tmp_path / "tokenizer.model")
    if config:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert tokenizer_frame(load_tokenizer(tmp_path)) == expected


def test_decode_shows_special_tokens_and_odd_ids(tokenizer_file: Path) -> None:
    loaded = load_tokenizer(tokenizer_file)
    ids = load_huggingface(loaded.data).encode("the 床<|im_end|> fox").ids
    assert decode_ids(loaded, np.array(ids, np.uint16)) == "the 床<|im_end|> fox"
    odd = [-1, *ids, 320, 1 << 40, 0]
    assert decode_ids(loaded, odd) == (
        "<id -1>the 床<|im_end|> fox<id 320><id 1099511627776><|endoftext|>"
    )
    assert decode_ids(loaded, []) == ""
    assert decode_ids(loaded, ids[4:5])  # half a character


def test_decode_of_a_model_shows_control_symbols() -> None:
    loaded = load_tokenizer(GOLDEN / "sp_bpe.model")
    model = SentencePieceProcessor(model_file=str(GOLDEN / "sp_bpe.model"))
    ids = [1, *model.encode("床前 bright moon"), 2, 8000, -7]
    assert decode_ids(loaded, ids) == "<s>床前 bright moon</s><id 8000><id -7>"


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model"])
@pytest.mark.parametrize("text", ["\ud800", "", "\x00", "no such token"])
def test_no_id_for_what_is_no_token(
    tokenizer_file: Path, tmp_path: Path, name: str, text: str
) -> None:
    shutil.copy(tokenizer_file, tmp_path / "tokenizer.json")
    shutil.copy(GOLDEN / "sp_bpe.model", tmp_path / "tokenizer.model")
    assert token_id(load_tokenizer(tmp_path / name), text) is None


NAMED = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]


@pytest.mark.parametrize(
    ("stated", "beside", "expected"),
    [
        ("C", None, "C"),
        ("C", "J", "J"),
        (NAMED, None, "D"),
        (NAMED[:1], None, None),
        ([{"name": "default"}, 3], None, None),
        (None, None, None),
        ({"default": "D"}, None, None),
    ],
)
def test_the_chat_template(
    tmp_path: Path, stated: object, beside: str | None, expected: str | None
) -> None:
    path = saved(tmp_path, ["u"], ["</s>"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": stated}))
    if beside is not None:
        (tmp_path / "chat_template.jinja").write_text(beside)
    assert load_tokenizer(path).chat_template == expected


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("tokenizer_config.json", b"{", "not JSON"),
        ("tokenizer_config.json", b"\xff", "not JSON"),
        ("tokenizer_config.json", b"[" * 100_000, "not JSON"),
        ("tokenizer_config.json", b"[]", "not a JSON object"),
        ("tokenizer_config.json", b'{"chat_template": "\\ud800"}', "not valid Unicode"),
        ("chat_template.jinja", b"\xff", "not UTF-8"),
    ],
)
def test_what_lies_beside_may_be_broken(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    path = saved(tmp_path, ["u"], ["</s>"])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConversionError, match=problem) as caught:
        load_tokenizer(path)
    assert caught.value.where.endswith(name)
    assert caught.value.hint


CHARSMAP = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}

MISTAKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it is empty"),
    "an empty object": (b"{}", 'a JSON object without "model"'),
    "a wrong model": (b'{"model": "BPE"}', 'a JSON object without "model"'),
    "an unknown model": (b'{"model": {"type": "Other"}}', "Cannot instantiate Tokenizer"),
    "binary": (b"\x00\xff binary", "not a SentencePiece model, or it is damaged"),
    "text": (b"hello\nworld\n", "not a SentencePiece model, or it is damaged"),
    "vocab.json": (b'{"a": 0, "model": 1}', "a vocab.json"),
    "configuration": (b'{"tokenizer_class": "LlamaTokenizer"}', "a tokenizer_config.json"),
    "merges.txt": (b"#version: 0.2\na b\n", "the merges.txt"),
    "tiktoken": (b"IQ== 0\nIg== 1\n", "a tiktoken file"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
    "gzip": (gzip.compress(b"{}"), "gzip data"),
    "a list": (b'[{"model": {}}]', "a JSON list"),
    "an error page": (b"<!DOCTYPE html>", "HTML or XML"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "a byte order mark"),
    "UTF-16": ("{}".encode("utf-16"), "UTF-16 text"),
    "deep nesting": (b'{"model": ' + b"[" * 100_000, "it is not JSON, perhaps cut off"),
    "bad UTF-8": (b'{"model": "\xff"}', "it is not JSON"),
    "a merge of unknown tokens": (
        b'{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 1}, "merges": ["a b"]}}',
        "out of vocabulary",
    ),
    "a panic of the library": (
        json.dumps({**word_document(["u"]), "normalizer": CHARSMAP}).encode(),
        "Cannot parse precompiled_charsmap",
    ),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_what_is_no_tokenizer_is_said_to_be_none(tmp_path: Path, name: str) -> None:
    content, problem = MISTAKEN[name]
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ConversionError) as caught:
        load_tokenizer(path)
    assert caught.value.problem.startswith("not a tokenizer: ")
    assert problem in caught.value.problem
    assert len(str(caught.value)) < 700
    assert caught.value.hint


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model"])
def test_a_cut_file_is_no_tokenizer(
    tokenizer_file: Path, tmp_path: Path, name: str, share: float
) -> None:
    whole = tokenizer_file if name.endswith("json") else GOLDEN / "sp_bpe.model"
    data = whole.read_bytes()
    (tmp_path / name).write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ConversionError, match=r"cut off|damaged"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_model_loads_or_is_said_to_be_none(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    data = bytearray((GOLDEN / "sp_bpe.model").read_bytes())
    for _ in range(10):
        data[random.randrange(len(data))] = random.randrange(256)
    (tmp_path / "tokenizer.model").write_bytes(data)
    with contextlib.suppress(ConversionError):
        loaded = load_tokenizer(tmp_path)
        decode_ids(loaded, range(-1, 8001))


def test_a_model_with_a_piece_that_is_not_utf_8(tmp_path: Path) -> None:
    data = (GOLDEN / "sp_bpe.model").read_bytes()
    piece = "▁the".encode()
    (tmp_path / "tokenizer.model").write_bytes(data.replace(piece, b"\xff" + piece[1:], 1))
    with pytest.raises(ConversionError, match="a piece of the model is damaged"):
        load_tokenizer(tmp_path)


def test_a_missing_file_an_empty_folder_a_pipe_and_an_untrained_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="No such file"):
        load_tokenizer(tmp_path / "nowhere.json")
    with pytest.raises(ConversionError, match=r"no tokenizer\.json and no tokenizer\.model"):
        load_tokenizer(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConversionError, match="not a regular file"):
        load_tokenizer(tmp_path / "pipe")
    Tokenizer(models.BPE()).save(str(tmp_path / "empty.json"))
    with pytest.raises(ConversionError, match="has no tokens"):
        load_tokenizer(tmp_path / "empty.json")


def test_a_file_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(ConversionError, match="larger than 256 MiB"):
        load_tokenizer(tmp_path)


def test_an_id_beyond_what_a_data_set_holds(tmp_path: Path) -> None:
    document = word_document(["u"])
    document["model"]["vocab"]["far"] = (1 << 32) - 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ConversionError, match="4294967295 is not an int32"):
        load_tokenizer(tmp_path)
