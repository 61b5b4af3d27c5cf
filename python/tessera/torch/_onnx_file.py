"""ONNX models as bytes: the few messages of the format that a converted graph needs, without a package for it."""
from __future__ import annotations

import struct
from typing import Any, Iterable, Sequence, Union

OPSET = 20
_IR_VERSION = 9

# TensorProto.DataType by the names of PyTorch's types.
ELEMENTS = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}

Attribute = Union[int, float, str, Sequence[int], Sequence[float]]
Bytes = Union[bytes, memoryview]


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> list[Bytes]:
    return [_varint(field << 3) + _varint(value)]


def _message(field: int, parts: Iterable[Bytes]) -> list[Bytes]:
    """Parts are joined once, at the end: weights are among them."""
    parts = list(parts)
    return [_varint(field << 3 | 2) + _varint(sum(len(part) for part in parts)), *parts]


def _text(field: int, text: str) -> list[Bytes]:
    return _message(field, [text.encode()])


def tensor(name: str, element: int, shape: Sequence[int], content: Bytes) -> list[Bytes]:
    """A TensorProto, little-endian and row by row."""
    parts = [part for size in shape for part in _number(1, size)]
    return [*parts, *_number(2, element), *_text(8, name), *_message(9, [content])]


def _attribute(name: str, value: Attribute) -> list[Bytes]:
    parts = _text(1, name)
    if isinstance(value, int):
        return parts + _number(3, value) + _number(20, 2)
    if isinstance(value, float):
        return parts + [_varint(2 << 3 | 5) + struct.pack("<f", value)] + _number(20, 1)
    if isinstance(value, str):
        return parts + _text(4, value) + _number(20, 3)
    if value and isinstance(value[0], float):
        packed = [_varint(7 << 3 | 5) + struct.pack("<f", item) for item in value]
        return parts + packed + _number(20, 6)
    return parts + [part for item in value for part in _number(8, int(item))] + _number(20, 7)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], attributes: dict[str, Attribute]) -> list[Bytes]:
    parts = [part for name in inputs for part in _text(1, name)]
    parts += [part for name in outputs for part in _text(2, name)]
    parts += _text(3, outputs[0]) + _text(4, op)
    return parts + [part for name, value in attributes.items() for part in _message(5, _attribute(name, value))]


def value_info(name: str, element: int, shape: Sequence[int]) -> list[Bytes]:
    dims = [part for size in shape for part in _message(1, _number(1, size))]
    kind = _number(1, element) + _message(2, dims)
    return _text(1, name) + _message(2, _message(1, kind))


def model(nodes: Sequence[Any], tensors: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
    """A ModelProto of what the functions above made."""
    graph: list[Bytes] = _text(2, "torch")
    for field, messages in ((1, nodes), (5, tensors), (11, inputs), (12, outputs)):
        for message in messages:
            graph += _message(field, message)
    return b"".join(_number(1, _IR_VERSION) + _text(2, "tessera.torch") + _message(7, graph) +
                    _message(8, _number(2, OPSET)))
