from ingot.schemas.monolith import line_id_pb2 as _line_id_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LabelTag(_message.Message):
    __slots__ = ("key", "val")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VAL_FIELD_NUMBER: _ClassVar[int]
    key: int
    val: float
    def __init__(self, key: _Optional[int] = ..., val: _Optional[float] = ...) -> None: ...

class InstanceFidList(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, value: _Optional[_Iterable[int]] = ...) -> None: ...

class InstanceFloatList(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, value: _Optional[_Iterable[float]] = ...) -> None: ...

class InstanceInt64List(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, value: _Optional[_Iterable[int]] = ...) -> None: ...

class InstanceBytesList(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, value: _Optional[_Iterable[bytes]] = ...) -> None: ...

class InstanceFeature(_message.Message):
    __slots__ = ("name", "fid", "float_value", "int64_value", "bytes_value", "fid_list", "float_list", "int64_list", "bytes_list")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FID_FIELD_NUMBER: _ClassVar[int]
    FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT64_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    FID_LIST_FIELD_NUMBER: _ClassVar[int]
    FLOAT_LIST_FIELD_NUMBER: _ClassVar[int]
    INT64_LIST_FIELD_NUMBER: _ClassVar[int]
    BYTES_LIST_FIELD_NUMBER: _ClassVar[int]
    name: str
    fid: _containers.RepeatedScalarFieldContainer[int]
    float_value: _containers.RepeatedScalarFieldContainer[float]
    int64_value: _containers.RepeatedScalarFieldContainer[int]
    bytes_value: _containers.RepeatedScalarFieldContainer[bytes]
    fid_list: _containers.RepeatedCompositeFieldContainer[InstanceFidList]
    float_list: _containers.RepeatedCompositeFieldContainer[InstanceFloatList]
    int64_list: _containers.RepeatedCompositeFieldContainer[InstanceInt64List]
    bytes_list: _containers.RepeatedCompositeFieldContainer[InstanceBytesList]
    def __init__(self, name: _Optional[str] = ..., fid: _Optional[_Iterable[int]] = ..., float_value: _Optional[_Iterable[float]] = ..., int64_value: _Optional[_Iterable[int]] = ..., bytes_value: _Optional[_Iterable[bytes]] = ..., fid_list: _Optional[_Iterable[_Union[InstanceFidList, _Mapping]]] = ..., float_list: _Optional[_Iterable[_Union[InstanceFloatList, _Mapping]]] = ..., int64_list: _Optional[_Iterable[_Union[InstanceInt64List, _Mapping]]] = ..., bytes_list: _Optional[_Iterable[_Union[InstanceBytesList, _Mapping]]] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("fid", "value", "label", "instance_weight", "line_id", "dense", "label_tag", "next_fid", "feature", "data_source_key")
    FID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LINE_ID_FIELD_NUMBER: _ClassVar[int]
    DENSE_FIELD_NUMBER: _ClassVar[int]
    LABEL_TAG_FIELD_NUMBER: _ClassVar[int]
    NEXT_FID_FIELD_NUMBER: _ClassVar[int]
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    DATA_SOURCE_KEY_FIELD_NUMBER: _ClassVar[int]
    fid: _containers.RepeatedScalarFieldContainer[int]
    value: _containers.RepeatedScalarFieldContainer[float]
    label: _containers.RepeatedScalarFieldContainer[float]
    instance_weight: float
    line_id: _line_id_pb2.LineId
    dense: _containers.RepeatedScalarFieldContainer[float]
    label_tag: _containers.RepeatedCompositeFieldContainer[LabelTag]
    next_fid: _containers.RepeatedScalarFieldContainer[int]
    feature: _containers.RepeatedCompositeFieldContainer[InstanceFeature]
    data_source_key: int
    def __init__(self, fid: _Optional[_Iterable[int]] = ..., value: _Optional[_Iterable[float]] = ..., label: _Optional[_Iterable[float]] = ..., instance_weight: _Optional[float] = ..., line_id: _Optional[_Union[_line_id_pb2.LineId, _Mapping]] = ..., dense: _Optional[_Iterable[float]] = ..., label_tag: _Optional[_Iterable[_Union[LabelTag, _Mapping]]] = ..., next_fid: _Optional[_Iterable[int]] = ..., feature: _Optional[_Iterable[_Union[InstanceFeature, _Mapping]]] = ..., data_source_key: _Optional[int] = ...) -> None: ...
