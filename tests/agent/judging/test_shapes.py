"""Two shapes made comparable: what a sample proves, and paths whose keys are data."""

from ingot.agent.judging.drift import ComparedPaths, kinds_text, least_share, outermost_paths


def test_the_least_share_that_a_sample_shows() -> None:
    assert least_share(1.0, 1) == 1.0
    assert least_share(0.0, 100) == 0.0
    assert least_share(0.33, 3) < 0.01
    assert 0.2 < least_share(0.5, 20) < 0.3
    assert 0.35 < least_share(0.5, 200) < 0.5


def test_a_sample_proves_what_others_would_show_too() -> None:
    many = ComparedPaths.of({"weight": 200}, {})
    few = ComparedPaths.of({"weight": 3}, {})
    assert many.would_show(1.0, few)
    assert many.would_show(0.5, many)
    assert not many.would_show(0.5, few)
    assert not few.would_show(0.33, many)
    assert not few.would_show(1.0, ComparedPaths.of({"weight": 0}, {}))


def test_a_weight_that_no_sample_has_costs_no_time() -> None:
    vast = ComparedPaths.of({"weight": 10**9}, {})
    assert vast.weight == 500
    assert vast.would_show(0.5, vast)


def test_keys_that_are_data_in_one_shape_are_so_in_both() -> None:
    one = {"paths": {"c.*": "object", "c.*.q": "string"}, "weight": 9}
    two = {
        "paths": {"c.k1": "object", "c.k1.q": "string", "c['k 2'].q": "number", "c2": "list"},
        "partly": {"c.k1.q": 0.5, "c['k 2'].q": 0.25},
        "mixed": {"c.k1.q": {"string": 0.5}},
        "rare": {"c.k1.z": "null|string"},
        "roles": {"c.k1.q": ["a"], "c['k 2'].q": ["b"]},
        "weight": 9,
    }
    found = ComparedPaths.of(two, one)
    assert {path: kinds_text(kinds) for path, kinds in found.types.items()} == {
        "c.*": "object",
        "c.*.q": "number|string",
        "c2": "list",
        "c.*.z": "string",
    }
    assert found.roles == {"c.*.q": frozenset("ab")}
    assert found.share("c.*.q", "string") == 0.25
    assert found.share("nowhere", "string") == 0.0
    rows = ComparedPaths.of({"paths": {"k1": "string"}}, {"paths": {"*": "string"}})
    assert list(rows.types) == ["*"]


def test_what_is_inside_comes_and_goes_with_what_is_around() -> None:
    assert outermost_paths(["a", "a.b", "a[*]", "b[*].c", "ab"]) == ["a", "b[*].c", "ab"]
