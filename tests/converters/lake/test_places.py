import pytest

from ingot.converters.lake.survey import card_folders, common_stem, is_card, set_folder
from ingot.converters.sources.storage.listing import Entry, LocalFile

NO_CARDS: frozenset[str] = frozenset()


def entry(folder, name, content=b""):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return Entry(name=name, place=LocalFile(str(path)), bytes=len(content))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("a.jsonl", "."),
        ("wiki/a.jsonl", "wiki"),
        ("wiki/train/a.jsonl", "wiki"),
        ("wiki/data/train/a.jsonl", "wiki"),
        ("wiki/Validation/a.jsonl", "wiki"),
        ("wiki/zh/a.jsonl", "wiki/zh"),
        ("wiki/training_notes/a.jsonl", "wiki/training_notes"),
        ("logs/dt=2024-01-01/hour=3/a.parquet", "logs"),
        ("logs/2024/01/02/a.parquet", "logs"),
        ("logs/2024-01-02/a.parquet", "logs"),
        ("logs/part-00003/a.parquet", "logs"),
        ("logs/shards/a.parquet", "logs"),
        ("007/a.jsonl", "007"),  # in the root a number may be a name
        ("part-3/a.jsonl", "part-3"),
        ("train/a.jsonl", "."),
        ("2024-01-02/a.jsonl", "."),
        ("a/b/c/d.jsonl", "a/b/c"),
    ],
)
def test_a_file_belongs_to_its_folder_less_its_parts(name, place):
    assert set_folder(name, NO_CARDS) == place


def test_the_nearest_folder_with_a_card_is_the_place():
    cards = frozenset({"exam", "exam/inner"})
    assert set_folder("exam/zh/train/a.jsonl", cards) == "exam"
    assert set_folder("exam/inner/x/a.jsonl", cards) == "exam/inner"
    assert set_folder("other/zh/a.jsonl", cards) == "other/zh"


def test_front_matter_or_a_description_makes_a_card(tmp_path):
    files = [
        entry(tmp_path, "a/README.md", b"---\nlicense: mit\n---\n# A"),
        entry(tmp_path, "b/README.md", b"# B\n--- no front matter"),
        entry(tmp_path, "c/dataset_infos.json", b"{}"),
        entry(tmp_path, "d/readme.MD", b"\xef\xbb\xbf---\r\nx: 1\r\n---"),
        entry(tmp_path, "README.md", b"---\nthe lake's own: 1\n---"),
        Entry(name="e/README.md", place=LocalFile(str(tmp_path / "gone")), bytes=1),
        entry(tmp_path, "f/data.json", b"---\n"),
    ]
    assert card_folders(files) == {"a", "c", "d"}
    assert [is_card(one) for one in files] == [True] * 6 + [False]


@pytest.mark.parametrize(
    ("names", "stem"),
    [
        (["x/orders-00000-of-00002.csv", "x/orders-00001-of-00002.csv"], "orders"),
        (["users_train.jsonl.gz", "users_test.jsonl.gz"], "users"),
        (["part-0.parquet", "part-1.parquet"], ""),
        (["a.csv", "b.csv"], ""),
        (["wiki_zh.txt", "wiki_en.txt"], "wiki"),
        (["only.json"], "only"),
    ],
)
def test_what_names_have_in_common(names, stem):
    assert common_stem(names) == stem
