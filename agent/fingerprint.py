"""The shape of a source as one hash, so that a later run can tell whether the data drifted.

Two samples of equal shape have equal fingerprints: which values they hold does not matter, which
paths and JSON types occur does, and so do the facts that the files are read by.
"""

import hashlib
import json

from ingot.converters.profile import profile
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample


def fingerprint(source: Source, sample: Sample) -> str:
    """SHA-256 over the sorted paths with their types (null is none) and the source's facts."""
    shape: list[Json] = sorted(
        [one.path, sorted(kind for kind in one.types if kind != "null")]
        for one in profile(sample).paths
    )
    facts = source.guessed.to_document() | source.spec.to_document()
    text = json.dumps([shape, facts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
