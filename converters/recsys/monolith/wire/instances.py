"""Index Instances, the older message: protobuf makes Examples of them first."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ingot.converters.recsys.monolith.record_index import Bad, Records, Rows
from ingot.converters.recsys.monolith.wire.row_assembly import gather_spans
from ingot.converters.recsys.monolith.wire.row_index import index_examples

_NO_PLACE: Final = ("dense", "label_tag", "next_fid")
_KINDS: Final = {
    "fid": "fid_v2_list",
    "float_value": "float_list",
    "int64_value": "int64_list",
    "bytes_value": "bytes_list",
    "fid_list": "fid_v2_lists",
    "float_list": "float_lists",
    "int64_list": "int64_lists",
    "bytes_list": "bytes_lists",
}
"""The fields of an Instance's feature, in the order in which Monolith looks for one that is set,
and the kinds of Feature that they become."""
_SLOT_BITS: Final = 54  # below the slot of a fid of version 1


def index_instances(records: Records, lost: Counter[str]) -> tuple[Rows, list[Bad]]:
    """The rows of records that are Instances, as Monolith makes Examples of them.

    `value` becomes a float_list, fids go into `fc_slot_<slot>` by their slots (version 1), each
    feature becomes the kind of value that it has, an instance_weight that is not there 1; ids of
    features count from 0. `lost` counts the Instances by fields that an Example has no place for.
    """
    found = [_convert_instance(records, at, lost) for at in range(len(records))]
    messages = {at: message for at, message in enumerate(found) if message is not None}
    wrong = [
        records.bad(at, "message", "it is not an Instance")
        for at in range(len(records))
        if at not in messages
    ]
    sort_ids, first = gather_spans(records.data, records.sort_start, records.sort_stop)
    bare = replace(records, data=sort_ids, sort_start=first[:-1], sort_stop=first[1:])
    examples = bare.with_messages(messages).select(np.array(list(messages), np.int64))
    rows, more = index_examples(examples)
    return rows, sorted(wrong + more, key=lambda bad: bad.record)


def _convert_instance(records: Records, at: int, lost: Counter[str]) -> bytes | None:
    """An Instance as an Example, serialized; None where it is none."""
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2, instance_pb2

    try:
        instance = instance_pb2.Instance.FromString(records.message(at))
        lost.update(_find_lost_fields(instance))
        example = example_pb2.Example(
            label=instance.label,
            instance_weight=instance.instance_weight if instance.HasField("instance_weight") else 1,
            data_source_key=instance.data_source_key,
        )
        if instance.HasField("line_id"):
            example.line_id.MergeFromString(instance.line_id.SerializeToString())
        _add_features(instance, example)
        return bytes(example.SerializeToString())
    except (DecodeError, UnicodeDecodeError, ValueError):  # a name that is no text
        return None


def _add_features(instance: Any, example: Any) -> None:  # noqa: ANN401 - messages
    for number, (name, kind, values) in enumerate(_instance_features(instance)):
        feature = example.named_feature.add(name=name, id=number).feature
        if kind is None:
            feature.SetInParent()
        elif kind.endswith("lists"):
            for value in values:
                getattr(feature, kind).list.add().value.extend(value.value)
        else:
            getattr(feature, kind).value.extend(values)


def _instance_features(instance: Any) -> Iterator[tuple[str, str | None, Any]]:  # noqa: ANN401
    """Name, kind and values of each feature; a kind of None is an unset one."""
    if instance.value:
        yield "value", "float_list", instance.value
    slots: dict[int, list[int]] = {}
    for fid in instance.fid:
        slots.setdefault(fid >> _SLOT_BITS, []).append(fid)
    for slot, fids in slots.items():
        yield f"fc_slot_{slot}", "fid_v1_list", fids
    for feature in instance.feature:
        given = next((name for name in _KINDS if len(getattr(feature, name))), None)
        yield feature.name, _KINDS[given] if given else None, getattr(feature, given or "fid")


def _find_lost_fields(instance: Any) -> set[str]:  # noqa: ANN401
    """What an Instance has that an Example of it has not."""
    found = {name for name in _NO_PLACE if len(getattr(instance, name))}
    if any(sum(len(getattr(one, name)) > 0 for name in _KINDS) > 1 for one in instance.feature):
        found.add("feature of several kinds")
    if _has_unknown(instance):
        found.add("unknown fields")
    return found


def _has_unknown(instance: Any) -> bool:  # noqa: ANN401
    """Whether an Instance has unknown fields outside its LineId, which is copied whole."""
    copy = type(instance)()
    copy.CopyFrom(instance)
    copy.ClearField("line_id")
    before = copy.ByteSize()
    copy.DiscardUnknownFields()
    return bool(copy.ByteSize() != before)
