"""What the page of a lake holds: facts of every data set, and what is shown where one is opened.

Everything goes into the page as JSON. It stays within bounds however large the lake is: some
kilobytes of facts for a data set at most (texts are cut), and budgets for all samples and for all
mappings together, of which every data set gets an equal share; what one does not need goes to the
others. The page is one file that needs nothing else and asks nobody.
"""

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import accumulate, takewhile
from typing import Final

from ingot.converters.json_yaml import encode, map_leaves, shorten_text
from ingot.converters.lake.catalog import STATUSES, SetFacts, Split
from ingot.converters.output.figures import render_page

SAMPLES_BYTES: Final = 6 << 20
MAPPINGS_BYTES: Final = 4 << 20
TOP_LANGUAGES: Final = 24
# Texts of the first sample are cut to so many characters where it does not fit otherwise.
_CUTS: Final = (2_000, 1_000, 500, 250, 100)
_WHY_CHARS: Final = 1_000
# As long as a file's name may be: data sets are linked by their names.
_NAME_CHARS: Final = 255
# A data set is found by so many languages, the longest tags of which have so many characters.
_SOUGHT: Final = 200
_TAG_CHARS: Final = 35
_ROWS: Final = ("read", "converted", "rejected", "filtered")
# What the table shows of a data set as its facts have it; texts are cut.
_TEXT_FIELDS: Final = ("place", "status", "why", "hint")
_PLAIN_FIELDS: Final = (
    *("decision", "mapper", "model", "confidence", "coverage", "format", "files", "bytes", "rows"),
)
# What ends a line of a script, and what is no text: half a surrogate pair.
_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def embed_json(value: object) -> str:
    """Return a value as JSON for a script block of an HTML page; `NaN` and `inf` become texts."""
    try:
        text = _dump_json(value)
    except ValueError:
        text = _dump_json(map_leaves(value, _finite_or_text))
    for mark in "<>&":  # what ends a script block, one by one: texts are full of it
        text = text.replace(mark, _escape(mark))
    return _ESCAPED.sub(lambda match: _escape(match[0]), text)


def _escape(mark: str) -> str:
    return f"\\u{ord(mark):04x}"


def _dump_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite_or_text(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _json_bytes(value: object) -> int:
    return len(embed_json(value).encode("utf-8"))


# --- of the lake


def lake_totals(sets: Sequence[SetFacts]) -> dict[str, object]:
    """Return sums over the lake.

    Rows, records and what was measured are those of converted data sets.
    """
    done = [one for one in sets if one.status == "converted"]
    statuses = Counter(one.status for one in sets)
    rows = {name: sum(one.rows.get(name, 0) for one in done) for name in _ROWS}
    tokenized = [one.tokens for one in done if one.tokens is not None]
    return {
        "sets": len(sets),
        "statuses": {status: statuses[status] for status in STATUSES if statuses[status]},
        "rows": rows,
        "adds_up": all(
            one.rows.get("read", 0) == sum(one.rows.get(name, 0) for name in _ROWS[1:])
            for one in done
        ),
        "records": sum(one.figures.records for one in done),
        "characters": sum(one.figures.characters for one in done),
        "tokens": sum(tokenized) if tokenized else None,
        "tokenized": len(tokenized),
        "within": sum(one.figures.within for one in done),
        "across": sum(one.across for one in done),
        "languages": top_counts(_sum_counts(one.figures.languages for one in done)),
        "rejects": top_counts(_sum_counts(one.rejects for one in done)),
        "splits": _split_totals(done),
        "spent": _spending_totals(sets),
        "bytes": sum(one.bytes for one in sets),
    }


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _split_totals(sets: Sequence[SetFacts]) -> list[object]:
    """Splits in the order in which they were ordered, with what went into them."""
    totals: dict[str, Split] = {}
    for split in (split for one in sets for split in one.splits):
        sums = totals.get(split.name, Split(name=split.name, records=0, duplicates=0))
        totals[split.name] = Split(
            name=split.name,
            records=sums.records + split.records,
            duplicates=sums.duplicates + split.duplicates,
            tokens=sums.tokens if split.tokens is None else (sums.tokens or 0) + split.tokens,
        )
    return list(map(encode, totals.values()))


def _spending_totals(sets: Sequence[SetFacts]) -> dict[str, object]:
    """What asking took; `unpriced` data sets asked a model whose price is not known."""
    spending = [one.spent for one in sets if one.spent.get("calls")]
    costs = [one.get("cost") for one in spending]
    sums = {
        name: sum(one.get(name) or 0 for one in spending)
        for name in ("calls", "tokens_in", "tokens_out")
    }
    known = [cost for cost in costs if cost is not None]
    return {**sums, "cost": sum(known), "unpriced": len(costs) - len(known)}


def top_counts(counts: Mapping[str, int]) -> dict[str, object]:
    """Return the most frequent values first, and a short text for the rest.

    Long names are cut.
    """
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    first, rest = ordered[:TOP_LANGUAGES], ordered[TOP_LANGUAGES:]
    values: dict[str, object] = {"first": _cut_values(first, _NAME_CHARS)}
    if rest:
        values |= {"others": len(rest), "count": sum(count for _, count in rest)}
    return values


def rare_languages(languages: Mapping[str, int]) -> list[str]:
    """Return the languages behind the first ones, by which a data set is found too."""
    ordered = sorted(languages, key=lambda code: (-languages[code], code))
    return [code for code in ordered[TOP_LANGUAGES:_SOUGHT] if len(code) <= _TAG_CHARS]


# --- of a data set


def table_facts(facts: SetFacts) -> dict[str, object]:
    """Return what the table shows of a data set, and what it is sorted and filtered by."""
    figures = facts.figures
    values: dict[str, object] = {
        **{name: _cut_values(getattr(facts, name), _WHY_CHARS) for name in _TEXT_FIELDS},
        **{name: getattr(facts, name) for name in _PLAIN_FIELDS},
        "records": figures.records if facts.status in ("converted", "removed") else None,
        "characters": figures.characters,
        "rejects": top_counts(facts.rejects) if facts.rejects else None,
        "tokens": facts.tokens,
        "sequences": facts.sequences,
        "languages": top_counts(figures.languages) if figures.languages else None,
        "rare": rare_languages(figures.languages),
        "lengths": sorted(figures.lengths.items()),
        "within": figures.within,
        "across": facts.across,
        "spent": facts.spent,
    }
    nonempty = {key: value for key, value in values.items() if value not in (None, "", {}, [])}
    return {"name": facts.name} | nonempty


def set_details(sets: Sequence[SetFacts]) -> list[dict[str, object]]:
    """Return what the page shows of each opened data set, with bounded samples and mappings."""
    mappings = [  # as texts, so that their numbers are shown as they are
        "" if one.mapping is None else json.dumps(one.mapping, ensure_ascii=False, indent=2)
        for one in sets
    ]
    mapping_bytes = fair_share(map(_json_bytes, mappings), MAPPINGS_BYTES)
    sample_bytes = fair_share(
        (sum(map(_json_bytes, one.figures.samples)) for one in sets), SAMPLES_BYTES
    )
    return [
        _details(one, mapping if _json_bytes(mapping) <= mapping_bytes else None, sample_bytes)
        for one, mapping in zip(sets, mappings, strict=True)
    ]


def _details(facts: SetFacts, mapping: str | None, sample_bytes: int) -> dict[str, object]:
    samples, cut = fitting_samples(facts.figures.samples, sample_bytes)
    values: dict[str, object] = {
        "mapping": mapping,
        "mapping_cut": mapping is None,
        "mapping_file": facts.mapping_file,
        "result": facts.result,
        "samples": samples,
        "samples_cut": cut,  # left out or shortened for want of room
        "heard": top_counts(facts.figures.heard) if facts.figures.heard else None,
        "overlaps": top_counts(facts.overlaps) if facts.overlaps else None,
        "splits": [list(encode(split).values()) for split in facts.splits],
        "left_out": _cut_values(
            [[f.get("name", ""), f.get("why", "")] for f in facts.left_out], _WHY_CHARS
        ),
        "left_out_count": facts.left_out_count,
        "card": _cut_values(facts.card, _WHY_CHARS),
        "fingerprint": facts.fingerprint,
    }
    return {name: value for name, value in values.items() if value}


def fair_share(sizes: Iterable[int], budget: int) -> int:
    """Return the most that each may take for all to stay within a budget."""
    remaining, ordered = budget, sorted(sizes)
    for number, size in enumerate(ordered):
        share = remaining // (len(ordered) - number)
        if size > share:
            return share
        remaining -= size
    return budget


def fitting_samples(samples: Sequence[object], budget: int) -> tuple[list[object], int]:
    """Return the first samples that fit into some bytes, or at least a shortened one."""
    sums = accumulate(map(_json_bytes, samples))
    count = sum(1 for _ in takewhile(lambda size: size <= budget, sums))
    if count or not samples:
        return list(samples[:count]), len(samples) - count
    shorter = (_cut_values(samples[0], chars) for chars in _CUTS)
    return next(([one] for one in shorter if _json_bytes(one) <= budget), []), len(samples)


def _cut_values(value: object, chars: int) -> object:
    return map_leaves(
        value, lambda one: shorten_text(one, chars + 1) if isinstance(one, str) else one
    )


_PACKAGE: Final = "ingot.converters.lake"


def render_lake_page(
    sets: Sequence[SetFacts], *, title: str, values: Mapping[str, object]
) -> bytes:
    """Return the page; the same bytes for the same facts."""
    from markupsafe import Markup

    style = _read_files("lake.css")
    script = _read_files("lake_parts.js", "lake_set.js", "lake.js")
    lake: dict[str, object] = {"title": title, "told": dict(values), "totals": lake_totals(sets)}
    lake |= {"statuses": STATUSES, "sets": list(map(table_facts, sets))}
    page = render_page(
        _PACKAGE,
        "index.html.j2",
        title=title.encode("utf-8", "backslashreplace").decode("utf-8"),
        policy=_content_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        lake=Markup(embed_json(lake)),
        details=Markup(embed_json(set_details(sets))),
    )
    return page.encode("utf-8")


def _read_files(*names: str) -> str:
    return "\n".join((resources.files(_PACKAGE) / name).read_text("utf-8") for name in names)


def _content_policy(style: str, script: str) -> str:
    """What the page may do: nothing but its own style and script."""
    return (
        f"default-src 'none'; style-src '{_content_hash(style)}'; "
        f"script-src '{_content_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _content_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
