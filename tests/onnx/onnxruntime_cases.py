#!/usr/bin/env python3
"""Writes tests/onnx/onnxruntime_cases.inc: what ONNX Runtime computes for quantised operators.

usage: tests/onnx/onnxruntime_cases.py > tests/onnx/onnxruntime_cases.inc (needs onnxruntime and onnx)
"""
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"


def pattern(dtype, shape, step):
    """Numbers that the test makes, too: (i * step + 11) % 251, as bytes or in sixteenths around zero."""
    numbers = (np.arange(int(np.prod(shape))) * step + 11) % 251
    if dtype == "f32":
        return ((numbers - 125) / 16).astype(np.float32).reshape(shape)
    if dtype == "i32":
        return (numbers * 7 - 800).astype(np.int32).reshape(shape)
    return (numbers - 125).astype(np.int8).reshape(shape) if dtype == "i8" else numbers.astype(np.uint8).reshape(shape)


def f32(*numbers):
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def typed(dtype, number):
    return np.array(number, {"u8": np.uint8, "i8": np.int8, "i16": np.int16, "u16": np.uint16}[dtype])


P = pattern
CASES = {
    "QLinearConv": ("QLinearConv", "", [P("u8", (1, 4, 5, 5), 37), f32(0.05), typed("u8", 131), P("i8", (2, 2, 3, 3), 29), f32(0.02, 0.05), typed("i8", [0, 0]), f32(1.5), typed("u8", 120), P("i32", (2,), 91)], {"group": 2, "pads": [1, 1, 1, 1]}),
    "QLinearMatMul": ("QLinearMatMul", "", [P("u8", (3, 7), 37), f32(0.05), typed("u8", 100), P("i8", (7, 5), 29), f32(0.02), typed("i8", 3), f32(0.4), typed("u8", 128)], {}),
    "QGemm": ("QGemm", MICROSOFT, [P("u8", (3, 7), 37), f32(0.05), typed("u8", 100), P("i8", (5, 7), 29), f32(0.02, 0.03, 0.01, 0.05, 0.02), typed("i8", [0] * 5), P("i32", (5,), 91), f32(0.9), typed("u8", 128)], {"transB": 1}),
    "QGemmFloat": ("QGemm", MICROSOFT, [P("u8", (3, 7), 37), f32(0.05), typed("u8", 100), P("i8", (7, 5), 29), f32(0.02), typed("i8", 3)], {"alpha": 0.5}),
    "QLinearAdd": ("QLinearAdd", MICROSOFT, [P("u8", (3, 5), 37), f32(0.05), typed("u8", 100), P("u8", (5,), 29), f32(0.02), typed("u8", 3), f32(0.07), typed("u8", 90)], {}),
    "QLinearMul": ("QLinearMul", MICROSOFT, [P("i8", (3, 5), 37), f32(0.05), typed("i8", 10), P("i8", (3, 5), 29), f32(0.02), typed("i8", 3), f32(0.15), typed("i8", -5)], {}),
    "QLinearAveragePool": ("QLinearAveragePool", MICROSOFT, [P("u8", (1, 2, 5, 5), 37), f32(0.05), typed("u8", 100), f32(0.04), typed("u8", 90)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", MICROSOFT, [P("u8", (1, 3, 5, 5), 37), f32(0.05), typed("u8", 100), f32(0.01), typed("u8", 90)], {}),
    "QLinearSoftmax": ("QLinearSoftmax", MICROSOFT, [P("u8", (3, 7), 37), f32(0.02), typed("u8", 100), f32(1 / 256), typed("u8", 0)], {"opset": 13, "axis": -1}),
    "QLinearConcat": ("QLinearConcat", MICROSOFT, [f32(0.04), typed("u8", 100), P("u8", (2, 3), 37), f32(0.05), typed("u8", 90), P("u8", (2, 2), 29), f32(0.02), typed("u8", 10)], {"axis": 1}),
    "QLinearSigmoid": ("QLinearSigmoid", MICROSOFT, [P("u8", (16,), 37), f32(0.05), typed("u8", 100), f32(1 / 256), typed("u8", 0)], {}),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", MICROSOFT, [P("u8", (16,), 37), f32(0.05), typed("u8", 100), f32(0.03), typed("u8", 70)], {"alpha": 0.1}),
    "DynamicQuantizeLinear": ("DynamicQuantizeLinear", "", [P("f32", (3, 5), 37)], {}),
    "MatMulInteger": ("MatMulInteger", "", [P("u8", (3, 7), 37), P("i8", (7, 5), 29), typed("u8", 100), typed("i8", [1, 2, 3, 4, 5])], {}),
    "ConvInteger": ("ConvInteger", "", [P("u8", (1, 2, 5, 5), 37), P("u8", (3, 2, 3, 3), 29), typed("u8", 100), typed("u8", 7)], {"pads": [1, 1, 1, 1]}),
    "DynamicQuantizeMatMul": ("DynamicQuantizeMatMul", MICROSOFT, [P("f32", (3, 7), 37), P("i8", (7, 5), 29), f32(0.02, 0.03, 0.01, 0.05, 0.02), typed("i8", [0] * 5), P("f32", (5,), 91)], {}),
    "QAttention": ("QAttention", MICROSOFT, [P("u8", (2, 3, 8), 37), P("i8", (8, 24), 29), P("f32", (24,), 91), f32(0.01), f32(0.01), np.array([[1, 1, 0], [1, 1, 1]], np.int32), typed("u8", 100), typed("i8", 0)], {"num_heads": 2}),
    "QAttentionCausal": ("QAttention", MICROSOFT, [P("u8", (2, 3, 8), 37), P("i8", (8, 24), 29), P("f32", (24,), 91), f32(0.01), f32(0.01), np.array([2, 3], np.int32), typed("u8", 100), typed("i8", 0)], {"num_heads": 2, "unidirectional": 1}),
    "QuantizeLinear16": ("QuantizeLinear", MICROSOFT, [P("f32", (3, 5), 37), f32(0.001, 0.0001, 0.01), typed("u16", [30000, 32768, 0])], {"axis": 0}),
    "DequantizeLinear16": ("DequantizeLinear", MICROSOFT, [(P("i32", (3, 5), 37) * 9).astype(np.int16), f32(0.001), typed("i16", -300)], {}),
}


def main():
    print("// Written by onnxruntime_cases.py with ONNX Runtime", onnxruntime.__version__)
    for name, (op, domain, inputs, attributes) in CASES.items():
        names = [f"x{i}" for i in range(len(inputs))]
        outputs = {"DynamicQuantizeLinear": 3}.get(op, 1)
        node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain=domain, **attributes)
        constants = [numpy_helper.from_array(np.asarray(x), n) for n, x in zip(names[1:], inputs[1:])]
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), inputs[0].shape)],
                                  [onnx.ValueInfoProto(name=f"y{i}") for i in range(outputs)], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)], ir_version=8)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        first = np.asarray(session.run(None, {"x0": inputs[0]})[0]).ravel()
        numbers = ", ".join(str(v) if first.dtype.kind in "iu" else f"{v:.9g}" for v in first.tolist())
        print(f'{{"{name}", {{{numbers}}}}},')


main()
