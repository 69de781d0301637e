"""The rules by which a change of a mapping is named and classed; docs/review-rules.md is the table.

A class is a claim about the rows that were converted before the change, by severity:

- `none`: they give the same records.
- `additive`: they give the same records, others may come.
- `meta`: the same texts with other metadata.
- `training`: the same texts, of which other parts are trained on.
- `breaking`: records change, vanish or are renumbered.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ingot.converters.rows import Json

CLASSES = ("none", "additive", "meta", "training", "breaking")

# class -> rule -> what it means
_BY_CLASS: dict[str, dict[str, str]] = {
    "additive": {
        "mapped_now": "The data set was not relevant and gives records now.",
        "source_files_widened": "All files chosen before are still chosen, and more, all of the "
        "`format` that both mappings state; rows keep their numbers, which count per file.",
        "where_widened": "A condition admits more rows than before, or is gone, and takes no row "
        "from another alternative.",
        "alternative_added": "A further alternative stands last, so it is tried on rows that gave "
        "nothing before.",
        "value_fallback_added": "A further value of `any_of` stands last where a record without "
        "this text is none.",
        "map_value_added": "A value is looked up that was rejected as `unmapped_value`.",
        "role_map_value_added": "A role is read from the data that was rejected as "
        "`unmapped_value`.",
    },
    "meta": {
        "meta_source": "Records name another source.",
        "meta_language": "Records name another language.",
        "meta_timestamp": "Records have another time.",
        "meta_token_count": "Records have another stated number of tokens.",
        "meta_quality_score": "Records have another quality score.",
        "meta_original_id": "Records have another id of their origin.",
    },
    "training": {
        "loss_mask": "Other messages are trained on.",
        "loss_mask_from_data": "The data says by another value what is trained on; where it holds "
        "neither a boolean nor a number the row is rejected.",
    },
    "breaking": {
        "mapped_no_more": "The data set gave records and is not relevant any more.",
        "records_kind": "Texts become conversations, or conversations texts.",
        "source_files": "Files chosen before may be left out.",
        "source_files_other_kind": "More files are chosen, and the mappings do not state the same "
        "`format`: only the files of the format with most bytes are read.",
        "source_format": "Files are read as another format.",
        "source_encoding": "Bytes become other characters.",
        "source_delimiter": "Lines are cut into other cells.",
        "source_quote": "Quotes in a table are read otherwise.",
        "source_columns": "Cells have other names.",
        "source_root": "Another part of the file is read as rows, and rows get new numbers.",
        "source_orient": "Rows of a table in JSON are read otherwise.",
        "source_json_fields": "Other texts are parsed as JSON.",
        "group": "Other rows make up one record, or they do in another order.",
        "each": "A record is built from another part of a row.",
        "where_widened_among_alternatives": "An alternative admits more rows and may take them "
        "from a later one.",
        "where_tightened": "A condition admits fewer rows, or is new.",
        "where_changed": "A condition admits other rows.",
        "where_order": "Conditions of an alternative are tried in another order: one that is a "
        "fault rejects the row, one that does not hold passes it on.",
        "alternative_removed": "An alternative is gone, with the records it gave.",
        "alternative_inserted": "A further alternative stands before others and may take rows "
        "from them.",
        "alternative_order": "Alternatives are tried in another order.",
        "alternatives_each": "Alternatives are tried per element instead of per row, or the other "
        "way round.",
        "alternatives_many": "The mappings differ, and have too many alternatives to say in what.",
        "text_path": "The text is taken from another place.",
        "content_path": "A message takes its text from another place.",
        "system_path": "The system prompt is taken from another place.",
        "tools_path": "The tool definitions are taken from another place.",
        "value_order": "The same parts are in another order.",
        "value_each": "A value is built from other elements.",
        "value_tree": "Other texts of the nodes of a tree are taken, or others of its nodes.",
        "value_pick": "Another one of several hits is kept.",
        "value_map": "Values are looked up that were taken as they are, or no more.",
        "map_value_removed": "A value that was looked up is rejected from now on.",
        "map_value_changed": "A value that was looked up gives another one.",
        "map_default": "What stands for any other value (`*`) is another one or gone.",
        "value_as": "Lists and objects become JSON text, or no more.",
        "value_replace": "Other literal texts are replaced.",
        "value_label": "Options are numbered otherwise.",
        "value_sep": "Several texts are joined by another separator.",
        "value_fallback": "A further value of `any_of` fills what was left out of records before.",
        "message_added": "Conversations have a further message.",
        "message_removed": "Conversations lack a message.",
        "message_order": "Messages are in another order.",
        "message_each": "A message is written for other elements.",
        "message_where": "A message is written under other conditions.",
        "message_role": "A message has another role.",
        "role_map_value_removed": "A role that was read from the data is rejected from now on.",
        "role_map_value_changed": "A role that was read from the data is another one.",
        "split_markers": "A transcript is cut at other markers, or into other roles.",
    },
}
# rule -> (class, what it means)
RULES = {
    rule: (kind, text) for kind, of_kind in _BY_CLASS.items() for rule, text in of_kind.items()
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One difference between two mappings: its rule (a key of RULES) and its class `kind`.

    The target is `text`, `messages 2 content`, `meta.language` or `alternative 1: text`, counted
    from 1. `old` and `new` are words, None = not there; the JSON Pointer goes into the new normal
    form, or into the old one for what was removed.
    """

    target: str
    rule: str
    kind: str
    old: str | None
    new: str | None
    pointer: str


def make_change(rule: str, target: str, old: str | None, new: str | None, pointer: str) -> Change:
    """Make a change by the name of its rule, which has its class."""
    return Change(target=target, rule=rule, kind=RULES[rule][0], old=old, new=new, pointer=pointer)


def worst_class(found: Iterable[Change]) -> str:
    """Return the most severe class of some changes; `none` if there are none."""
    return max((one.kind for one in found), key=CLASSES.index, default="none")


def exact_text(value: Json) -> str:
    """Return a text that only values share that convert alike: `true` is not 1, nor is 1.0."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
