"""YAML for configs, read back by a YAML parser."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.json_yaml import dump_yaml

WORDS = st.from_regex(r"[a-z][a-z_]{2,8}", fullmatch=True).map(lambda word: f"key_{word}")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS
OBJECTS = st.dictionaries(WORDS, SCALARS, min_size=1, max_size=4)
DOCUMENTS = st.dictionaries(
    WORDS, SCALARS | OBJECTS | st.lists(SCALARS | OBJECTS, max_size=3), min_size=1, max_size=4
)


@given(DOCUMENTS)
def test_documents_are_read_back(document):
    assert yaml.safe_load(dump_yaml(document)) == document


def test_what_it_looks_like():
    document = {"sets": [{"path": "a b", "roles": {"user": ["user"]}}], "none": [], "on": True}
    assert dump_yaml(document, comment="one\ntwo").decode() == (
        "# one\n# two\n"
        'sets:\n- path: "a b"\n  roles:\n    user:\n    - "user"\n'
        "none: []\non: true\n"
    )
