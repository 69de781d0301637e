"""Which mappings are reviewed: a table of what may become of a file between two sides."""

import json
from collections.abc import Collection
from typing import Any

import pytest

from ingot.agent.review.changed_mappings import compare_files, find_changed
from ingot.agent.review.revisions import Side
from ingot.converters.errors import MappingError, RevisionError
from ingot.converters.mapping.bind import MAX_BYTES

TEXT = b'{"text": "body"}'
OTHER = b'{"version": 2, "text": ["title", "body"]}'
LONG = json.dumps({"version": 2, "text": ["t", "b"], "provenance": {"n": ["x"] * 40}}, indent=1)
NEITHER = b'{"name": "x"}'
CLAIM = b'{"version": 2, "text": 1}'
LINK = {"m.json": "a symbolic link"}


def side(files: dict[str, bytes], others: dict[str, str] | None = None) -> Side:
    def contents(paths: Collection[str], most: int) -> dict[str, bytes]:
        return {path: files[path] for path in paths if len(files[path]) <= most}

    named = {path: str(hash(data)) for path, data in files.items()}
    return Side(name="x", files=named, others=others or {}, contents=contents)


def found(base: Side, head: Side, *globs: str) -> list[tuple[Any, ...]]:
    told = find_changed(base, head, list(globs) or None)
    return [(one.status, one.old_path, one.path, *sorted(one.beside)) for one in told]


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (TEXT, TEXT, None),
        (TEXT, OTHER, "modified"),
        (TEXT, NEITHER, "broken"),
        (TEXT, b"{", "broken"),
        (TEXT, b"\xff", "broken"),
        (TEXT, CLAIM, "broken"),
        (TEXT, b" " * (MAX_BYTES + 1), "broken"),
        (TEXT, None, "removed"),
        (None, TEXT, "added"),
        (None, CLAIM, "broken"),
        (None, NEITHER, None),
        (None, b"{", None),
        (None, b"[" * 10_000, None),
        (NEITHER, TEXT, "added"),
        (NEITHER, b"{", None),
        (NEITHER, None, None),
    ],
)
def test_what_became_of_a_file(before: bytes | None, after: bytes | None, status: str) -> None:
    sides = [side({} if one is None else {"m.json": one}) for one in (before, after)]
    assert [one[0] for one in found(*sides)] == ([status] if status else [])
    for one in find_changed(*sides, None):
        assert (one.new is None) == (status in ("removed", "broken"))
        assert bool(one.problems) == (status == "broken")


def test_every_file_of_a_stated_glob_is_a_mapping() -> None:
    base, head = side({"a/m.json": NEITHER}), side({"a/m.json": b"{", "b/m.json": b"{"})
    assert found(base, head) == []
    assert found(base, head, "a/*.json") == [("broken", None, "a/m.json")]
    assert found(base, head, "*.json") == [("broken", None, f"{at}/m.json") for at in "ab"]


@pytest.mark.parametrize(
    "path", ["m.sample/x.json", "a/m.sample/data/x.json", "out/manifest.json", "a/M.JSON"]
)
def test_no_name_hides_a_mapping(path: str) -> None:
    assert found(side({}), side({path: TEXT})) == [("added", None, path)]
    assert found(side({path: TEXT}), side({path: OTHER})) == [("modified", None, path)]
    assert found(side({}), side({path: NEITHER})) == []
    assert found(side({}), side({path: NEITHER}), "*.[jJ]*") == [("broken", None, path)]


def test_what_owns_a_mapping_has_to_be_one() -> None:
    hidden = {"m.json": NEITHER, "m.sample/data/x.json": TEXT}
    assert found(side({"m.json": NEITHER}), side(hidden)) == [
        ("added", None, "m.sample/data/x.json")
    ]


LEADS = {
    "a link to a mapping": ("to/a.json", "m.json", "../m.json"),
    "another mapping of the tree": ("to/a.json", "../m.json", "../n.json"),
    "out of the tree": ("to/a.json", "../m.json", "/etc/passwd"),
    "a link to a link": ("to/a.json", None, "b.json"),
    "a folder of mappings": ("to", None, "maps"),
    "beside a mapping": ("maps/a.json", None, "../x"),
}


@pytest.mark.parametrize("case", LEADS)
def test_a_link_that_leads_to_a_mapping_is_named(case: str) -> None:
    path, was, now = LEADS[case]
    files = {"m.json": TEXT, "n.json": OTHER, "maps/x.json": TEXT}
    old, new = (
        {path: f"a symbolic link to {one}"} | {"to/b.json": "a symbolic link to ../m.json"}
        for one in (was, now)
    )
    base, head = side(files, {} if was is None else old), side(files, new)
    names = [one for one in found(base, head) if one[2] == path]
    assert names == [("broken", None, path)]


def test_other_links_are_not_named() -> None:
    files = {"m.json": TEXT, "package.json": NEITHER}
    head = side(files, {"to/package.json": "a symbolic link to ../package.json"})
    assert found(side(files), head) == []


def test_the_files_of_a_sample_are_no_mappings() -> None:
    files = {"m.json": TEXT, "m.sample/sample.json": b"{", "m.sample/data/x.json": TEXT}
    assert found(side({"m.json": TEXT}), side(files), "*.json") == [
        ("modified", None, "m.json", "sample")
    ]
    assert found(side(files), side({}), "*.json") == [("removed", None, "m.json", "sample")]


def test_a_new_link_that_a_glob_chooses() -> None:
    assert found(side({}), side({}, LINK)) == []
    [one] = find_changed(side({}), side({}, LINK), ["*.json"])
    assert (one.status, one.problems[0].got) == ("broken", "a symbolic link")


@pytest.mark.parametrize("data", [b"{", b"\xff", b""])
def test_a_file_that_is_no_json_among_mappings(data: bytes) -> None:
    near, far = {"a/m.json": TEXT}, {"b/m.json": TEXT}
    assert found(side(near), side({**near, "a/n.json": data})) == [("broken", None, "a/n.json")]
    assert found(side(far), side({**far, "a/n.json": data})) == []
    assert found(side(near), side({**near, "a/n.json": NEITHER})) == []


def test_a_glob_that_chooses_nothing() -> None:
    same = side({"mappings/m.json": TEXT})
    assert found(same, same, "mappings/*.json") == []
    with pytest.raises(RevisionError, match=r"'mapings/\*\.json'"):
        find_changed(same, same, ["mapings/*.json"])


def test_a_link_in_place_of_a_mapping() -> None:
    [one] = find_changed(side({"m.json": TEXT}), side({}, LINK), None)
    assert (one.status, one.problems[0].got) == ("broken", "a symbolic link")
    assert found(side({}, LINK), side({"m.json": TEXT})) == [("added", None, "m.json")]
    assert found(side({"m.json": NEITHER}), side({}, LINK)) == []


def test_renamed_mappings() -> None:
    long, longer = LONG.encode(), LONG.replace('"t"', '"u"').encode()
    assert found(side({"a.json": long}), side({"b.json": long})) == [
        ("renamed", "a.json", "b.json")
    ]
    assert found(side({"a.json": long}), side({"x/b.json": longer})) == [
        ("renamed", "a.json", "x/b.json")
    ]
    cut = long[:-3]
    assert found(side({"a.json": long}), side({"b.json": cut})) == [("broken", "a.json", "b.json")]
    assert found(side({"a.json": long}), side({"b.json": OTHER})) == [
        ("removed", None, "a.json"),
        ("added", None, "b.json"),
    ]


def test_a_renamed_mapping_may_be_laid_out_otherwise() -> None:
    other = json.dumps({**json.loads(LONG), "text": "u"}, separators=(",", ":")).encode()
    assert found(side({"a.json": LONG.encode()}), side({"b.json": other})) == [
        ("renamed", "a.json", "b.json")
    ]


@pytest.mark.parametrize("ending", [".sample/data/x.csv", ".golden.jsonl"])
def test_a_mapping_is_renamed_where_its_sample_moved_along(ending: str) -> None:
    base, head = {"a.json": LONG.encode(), f"a{ending}": b"1"}, {"b.json": OTHER}
    assert found(side(base), side({**head, f"b{ending}": b"1"})) == [
        ("renamed", "a.json", "b.json")
    ]
    assert {one[0] for one in found(side(base), side({**head, f"b{ending}": b"2"}))} == {
        "removed",
        "added",
    }


def test_a_link_in_a_sample_is_a_change_of_it() -> None:
    for path in ("m.sample", "m.sample/data/x"):
        link = {path: "a symbolic link"}
        assert found(side({"m.json": TEXT}), side({"m.json": TEXT}, link)) == [
            ("modified", None, "m.json", "sample")
        ]


def test_how_much_there_is_of_a_changed_sample() -> None:
    files = {"m.json": TEXT, "m.sample/sample.json": b'{"rows": 200}', "m.sample/data": b"x" * 9}
    small = {**files, "m.sample/sample.json": b'{"rows": 1}'}
    [one] = find_changed(side(files), side(small), None)
    assert [each and (each.rows, each.size) for each in one.samples] == [(200, 22), (1, 20)]
    [one] = find_changed(side(files), side({"m.json": TEXT}), None)
    assert one.samples[1] is None


def test_a_glob_chooses_by_both_names() -> None:
    base, head = side({"old/a.json": LONG.encode()}), side({"new/a.json": LONG.encode()})
    for glob in ("old/*.json", "new/*.json"):
        assert found(base, head, glob) == [("renamed", "old/a.json", "new/a.json")]
    base, head = (side({**files, "c.json": TEXT}) for files in ({"o/a.json": TEXT}, {}))
    assert found(base, head, "/c.json") == []


def test_what_lies_beside_a_mapping_counts() -> None:
    before = {"a.json": TEXT, "a.sample/data/x.csv": b"1", "a.golden.jsonl": b"1", "b.json": TEXT}
    for path, name in (("a.sample/data/x.csv", "sample"), ("a.golden.jsonl", "golden")):
        for after in ({**before, path: b"2"}, {k: v for k, v in before.items() if k != path}):
            assert found(side(before), side(after)) == [("modified", None, "a.json", name)]
    after = {**before, "a.json": OTHER, "a.golden.jsonl": b"2", "b.golden.jsonl": b"1"}
    assert found(side(before), side(after)) == [
        ("modified", None, "a.json", "golden"),
        ("modified", None, "b.json", "golden"),
    ]
    assert found(side({}), side({"c.golden.jsonl": b"1", "d.sample/sample.json": b"{}"})) == []


def test_what_only_moved_along_is_what_it_was() -> None:
    beside = {".sample/data/x.csv": b"1", ".golden.jsonl": b"2"}
    before = {"a.json": LONG.encode(), **{f"a{name}": data for name, data in beside.items()}}
    after = {"b.json": LONG.encode(), **{f"b{name}": data for name, data in beside.items()}}
    assert found(side(before), side(after)) == [("renamed", "a.json", "b.json")]
    after["b.golden.jsonl"] = b"3"
    assert found(side(before), side(after)) == [("renamed", "a.json", "b.json", "golden")]


def test_two_files() -> None:
    one = compare_files(side({"a.json": TEXT}), "a.json", side({"b.json": OTHER}), "b.json")
    assert (one.status, one.old_path, one.path) == ("modified", "a.json", "b.json")
    one = compare_files(side({"a.json": TEXT}), "a.json", side({"b.json": b"{"}), "b.json")
    assert (one.status, one.new) == ("broken", None)
    with pytest.raises(MappingError):
        compare_files(side({"a.json": b"{"}), "a.json", side({"b.json": TEXT}), "b.json")
    with pytest.raises(RevisionError, match="no such file"):
        compare_files(side({"a.json": TEXT}), "a.json", side({}), "b.json")
