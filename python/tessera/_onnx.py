"""The inputs and outputs that an ONNX file declares, read from its bytes: enough to know which shapes are open."""
from __future__ import annotations

from typing import Iterator, NamedTuple, Union

# TensorProto.DataType, as ONNX Runtime spells it.
ElementTypes = {
    1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "double", 12: "uint32", 13: "uint64", 16: "bfloat16",
}

Value = Union[int, memoryview]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Field numbers and values of a protobuf message; fixed-size ones, which are not wanted here, as their bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("not an ONNX file")
        if at + size > len(data):
            raise ValueError("not an ONNX file, or a part of one")
        yield tag >> 3, data[at:at + size]
        at += size


def _only(data: Value, number: int) -> list[Value]:
    return [v for n, v in _fields(data) if n == number] if isinstance(data, memoryview) else []


def _text(values: list[Value]) -> str:
    return bytes(values[-1]).decode() if values and isinstance(values[-1], memoryview) else ""


def _dimension(data: Value) -> Union[int, str, None]:
    sizes = _only(data, 1)
    if sizes and isinstance(sizes[-1], int) and sizes[-1] < 1 << 63:
        return sizes[-1]
    return _text(_only(data, 2)) or None


Declared = tuple[str, int, list[Union[int, str, None]]]


def _declared(info: Value) -> Declared:
    """Element type 0: it is no tensor, or not said."""
    tensors = [t for kind in _only(info, 2) for t in _only(kind, 1)] or [0]
    kind = _only(tensors[0], 1)
    shape = [_dimension(d) for s in _only(tensors[0], 2) for d in _only(s, 1)]
    return _text(_only(info, 1)), kind[-1] if kind and isinstance(kind[-1], int) else 0, shape


class ModelMetadata(NamedTuple):
    """What a file says of itself."""

    producer_name: str
    graph_name: str
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = {}


def model_metadata(content: bytes) -> ModelMetadata:
    data = memoryview(content)
    graphs = _only(data, 7)
    if not graphs:
        raise ValueError("not an ONNX file")
    versions = _only(data, 5)
    version = versions[-1] if versions and isinstance(versions[-1], int) else 0
    entries = {_text(_only(e, 1)): _text(_only(e, 2)) for e in _only(data, 14)}
    return ModelMetadata(_text(_only(data, 2)), _text(_only(graphs[-1], 2)), _text(_only(data, 4)),
                         _text(_only(data, 6)), _text(_only(graphs[-1], 10)), version, entries)


def graph_values(content: bytes) -> tuple[list[Declared], list[Declared]]:
    """Name, element type and shape of each input that is a tensor and no initializer, and of each output."""
    try:
        graph = _only(memoryview(content), 7)[-1]
        initializers = {_text(_only(t, 8)) for t in _only(graph, 5)}
        inputs = [_declared(info) for info in _only(graph, 11)]
        return ([i for i in inputs if i[0] not in initializers and i[1] != 0],
                [_declared(info) for info in _only(graph, 12)])
    except IndexError:
        raise ValueError("not an ONNX file") from None
