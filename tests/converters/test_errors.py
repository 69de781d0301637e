"""The error tree: survives pickling between processes, says what, where and what to do."""

import inspect
import pickle

import pytest

from ingot.converters import errors

PROBLEM = errors.Problem("/text", "bad_path", "a path", "a..b", "a.b")
SAMPLES = [
    errors.IngotError("what went wrong"),
    errors.SourceError("data/a.gz", "ends in the middle", "fetch it again"),
    errors.StorageError("s3://data", "cannot be reached", "check the network"),
    errors.ConversionError("part 3", "every row was rejected"),
    errors.OutputError("out", "exists", "--overwrite replaces it"),
    errors.ReviewNeeded("out.proposal", "confidence 0.4", "ingot run ... --mapping FILE"),
    errors.MappingError("mapping.json", (PROBLEM, errors.Problem("", "schema", "an object", "[]"))),
    errors.FeaturemapError("map.yaml", (errors.Problem("/features", "schema", "a list", "1"),)),
    errors.ParametersError("hot.json", (errors.Problem("/seeding", "schema", "a word", "1"),)),
    errors.RevisionError("'side'", "no such revision in this repository", "git fetch"),
    errors.ArgumentError("seed", "is below 0"),
    errors.NoTokensError("tokens/a", "not a single token"),
    errors.CommittedElsewhereError("s3://out", "was written by another run meanwhile"),
    errors.PartDone("out", "1/4", 3, 12, "1/2"),
    errors.PanickedError("panic: index out of bounds"),
    errors.DriftError("data", "has another shape", "--allow-drift"),
    errors.CountsReviewNeeded("data", "1 row with an image", "--approve-counts", {"media": 1}),
    errors.UnreachableStoreError("s3://data", "no answer", "run the same command again"),
    errors.BudgetReached("run", "3 of 3 calls are spent", "--llm-max-calls"),
    errors.ModelError("localhost", "no answer", "try again", "timeout"),
    errors.ModelError("localhost", "no such model"),
]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_pickles_with_fields_and_text(error):
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert (back.args, str(back), vars(back)) == (error.args, str(error), vars(error))


@pytest.mark.parametrize("error", [one for one in SAMPLES if hasattr(one, "hide")], ids=repr)
def test_what_an_error_quotes_is_hidden_and_its_class_stays(error):
    hidden = pickle.loads(pickle.dumps(error))
    hidden.hide(lambda text: f"[{text}]")
    assert type(hidden) is type(error)
    assert vars(hidden) == vars(error) | {"problem": f"[{error.problem}]"}
    again = pickle.loads(pickle.dumps(hidden))
    assert (again.problem, str(again)) == (hidden.problem, str(hidden))


def test_every_public_class_is_sampled():
    classes = {
        value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception) and not name.startswith("_")
    }
    assert classes == {type(error) for error in SAMPLES}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.SourceError, 1),
        (errors.StorageError, 4),
        (errors.RevisionError, 2),
        (errors.ConversionError, 1),
        (errors.OutputError, 1),
        (errors.MappingError, 2),
        (errors.FeaturemapError, 2),
        (errors.ParametersError, 2),
        (errors.ReviewNeeded, 3),
        (errors.BudgetReached, 3),
        (errors.ModelError, 4),
    ],
)
def test_exit_codes(kind, code):
    assert kind.exit_code == code


def test_text_says_where_what_and_what_to_do():
    assert str(SAMPLES[1]) == "data/a.gz: ends in the middle (fetch it again)"
    assert str(errors.SourceError("", "no input")) == "no input"


def test_mapping_error_shows_every_problem():
    assert str(SAMPLES[6]).splitlines() == [
        "mapping.json: 2 problems in the mapping",
        "  /text: bad_path: expected a path, got a..b; nearest: a.b",
        "  /: schema: expected an object, got []",
    ]


@pytest.mark.parametrize("error", SAMPLES[-3:], ids=lambda error: type(error).__name__)
def test_notes_survive_pickling(error):
    error = type(error)(*error.args)
    assert error.notes == ()
    error.notes = ("stepped down from json_schema to json_object: refused",)
    assert pickle.loads(pickle.dumps(error)).notes == error.notes
