"""Imports that the documents of 0.1 showed keep working for one release, with a warning."""

from importlib import import_module

import pytest

SHOWN = [
    ("ingot.agent.preview", "describe"),
    ("ingot.converters.criteo", "CriteoDataset"),
    ("ingot.converters.criteo", "KeyedJaggedTensor"),
    ("ingot.converters.criteo", "MultiHot"),
    ("ingot.converters.criteo.contract", "DENSE"),
    ("ingot.converters.criteo.contract", "KEYS"),
    ("ingot.converters.criteo.contract", "STATS"),
    ("ingot.converters.ctr", "ProcessedIterDataset"),
    ("ingot.converters.ctr", "build_dataloader"),
    ("ingot.converters.ctr", "collate_fn"),
    ("ingot.converters.ctr.contract", "PAD"),
    ("ingot.converters.ctr.featuremap", "Feature"),
    ("ingot.converters.ctr.featuremap", "load"),
    ("ingot.converters.monolith", "ExampleBatchReader"),
    ("ingot.converters.monolith", "fid"),
    ("ingot.converters.monolith", "read_arrow"),
    ("ingot.converters.monolith", "read_examples"),
    ("ingot.converters.monolith", "write_arrow"),
    ("ingot.converters.monolith", "write_examples"),
    ("ingot.converters.readers", "SourceSpec"),
    ("ingot.converters.readers", "open_source"),
]
STAYED = [
    ("ingot.converters.megatron", "BuildOptions"),
    ("ingot.converters.megatron", "WorkOptions"),
    ("ingot.converters.megatron", "build"),
    ("ingot.converters.megatron", "scan"),
    ("ingot.converters.megatron.dataset", "Item"),
    ("ingot.converters.megatron.dataset", "TokenDataset"),
    ("ingot.converters.megatron.dataset", "collate"),
    ("ingot.converters.records", "read_batches"),
    ("ingot.converters.records", "read_records"),
    ("ingot.converters.rows", "Json"),
]


@pytest.mark.parametrize(("module", "name"), SHOWN)
@pytest.mark.filterwarnings("ignore:.* has moved to:DeprecationWarning")
def test_an_old_path_gives_the_object_itself(module, name):
    from ingot.imports import MOVED

    old = next(one for one in MOVED if module == one or module.startswith(f"{one}."))
    new = MOVED[old] + module.removeprefix(old)
    assert getattr(import_module(module), name) is getattr(import_module(new), name)


def test_an_old_path_warns(monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "ingot.converters.readers", raising=False)
    with pytest.warns(DeprecationWarning, match=r"has moved to ingot\.converters\.sources"):
        import_module("ingot.converters.readers")


@pytest.mark.parametrize(("module", "name"), STAYED)
def test_a_path_that_stayed(module, name):
    assert hasattr(import_module(module), name)
