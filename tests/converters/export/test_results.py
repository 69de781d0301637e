"""Results that are no longer what their manifest says: told from none, and never exported."""

import hashlib

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.export.job import export


def test_a_damaged_result_is_told_from_none(said, make_result, tmp_path):
    chats = make_result([said("user: a?", "assistant: A.")])
    (part,) = (chats / "records").iterdir()
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    cut = f"damaged: records/{part.name} has {len(content) - 1:,} bytes, {len(content):,} expected"
    with pytest.raises(ConversionError, match=cut):
        export(chats, "trl", tmp_path / "out")
    part.unlink()
    with pytest.raises(ConversionError, match=f"damaged: records/{part.name} is missing"):
        export(chats, "trl", tmp_path / "out")
    (chats / "manifest.json").write_text("{")
    with pytest.raises(ConversionError, match=r"damaged: manifest\.json is not a JSON object"):
        export(chats, "trl", tmp_path / "out")


def test_records_that_were_changed_are_not_exported(said, make_result, tmp_path):
    """Of the same size, or beside those of the manifest."""
    folder = make_result([said("user: a?", "assistant: A.")], records="jsonl")
    part = folder / "records" / "part-00000.jsonl"
    export(folder, "trl", tmp_path / "out")
    part.write_bytes(part.read_bytes().replace(b'"user"', b'"uzer"'))
    for out in ("out", "other"):
        with pytest.raises(
            ConversionError, match=r"damaged: records/part-00000\.jsonl was changed"
        ):
            export(folder, "trl", tmp_path / out)
    part.with_name("part-00001.jsonl").write_bytes(part.read_bytes())
    part.write_bytes(part.read_bytes().replace(b'"uzer"', b'"user"'))
    with pytest.raises(ConversionError, match=r"part-00001\.jsonl is not in its manifest"):
        export(folder, "trl", tmp_path / "out")


def test_a_role_that_records_never_have_is_refused(said, make_result, tmp_path):
    folder = make_result([said("user: a?", "assistant: A.")], records="jsonl")
    part = folder / "records" / "part-00000.jsonl"
    before = hashlib.sha256(part.read_bytes()).hexdigest()
    part.write_bytes(part.read_bytes().replace(b'"user"', b'"uzer"'))
    after = hashlib.sha256(part.read_bytes()).hexdigest()
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest.replace(before, after))
    with pytest.raises(ConversionError, match=r'record 1: a message has the role "uzer"'):
        export(folder, "axolotl", tmp_path / "out")
