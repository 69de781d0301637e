"""Instances, the older message, as Examples: by protobuf objects."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ingot.converters.recsys.monolith.record_index import Bad, Records, Rows, records_of_messages
from ingot.converters.recsys.monolith.wire.row_assembly import append_pieces
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


@dataclass(frozen=True, kw_only=True)
class IndexedInstances:
    """Instances as rows.

    Attributes:
        rows: of the good ones.
        wrong: what is wrong with the others.
        lost: fields that an Example has no place for: how many Instances had them.
    """

    rows: Rows
    wrong: list[Bad]
    lost: Counter[str]


def index_instances(records: Records) -> IndexedInstances:
    """The rows of records that are Instances, as Monolith makes Examples of them.

    `value` becomes a float_list, fids go into `fc_slot_<slot>` by their slots (version 1), each
    feature becomes the kind of value that it has, an instance_weight that is not there 1; ids of
    features count from 0.
    """
    wrong: list[Bad] = []
    lost: Counter[str] = Counter()
    good: list[int] = []
    messages: list[bytes] = []
    for at in range(len(records)):
        message = _convert_instance(records, at, lost)
        if message is None:
            wrong.append(_bad_instance(records, at))
        else:
            good.append(at)
            messages.append(message)
    rows, more = index_examples(_reframe_records(records, good, messages))
    numbers = np.array(good, np.int64) + records.number
    rows = replace(rows, record=numbers[rows.record])
    wrong += [replace(bad, record=int(numbers[bad.record])) for bad in more]
    return IndexedInstances(rows=rows, wrong=sorted(wrong, key=lambda bad: bad.record), lost=lost)


def _reframe_records(records: Records, good: list[int], messages: list[bytes]) -> Records:
    """Messages with the frames of the records that they were made of; numbers are from 0."""
    examples = records_of_messages(messages)
    data, sort_start, sort_stop = append_pieces(examples.data, [records.sort_id(at) for at in good])
    return replace(
        examples,
        data=data,
        sort_start=sort_start,
        sort_stop=sort_stop,
        source=records.source[good],
        offset=records.offset[good],
    )


def _bad_instance(records: Records, at: int) -> Bad:
    return Bad(
        offset=int(records.offset[at]),
        bytes=0,
        record=records.number + at,
        row=None,
        reason="message",
        detail="it is no Instance",
    )


def _convert_instance(records: Records, at: int, lost: Counter[str]) -> bytes | None:
    """An Instance as an Example, serialized; None where it is none."""
    from ingot.converters.recsys.monolith.messages import DecodeError, example_pb2, instance_pb2

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
