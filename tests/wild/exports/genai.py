#!/usr/bin/env python3
"""Writes genai.onnx, a decoder of two layers in the form that ONNX Runtime GenAI's model builder emits, and genai_*.npz
with inputs of a prompt and of the token after it and what ONNX Runtime computes.

usage: tests/wild/exports/genai.py (needs numpy, onnx and onnxruntime)
"""
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parent
MICROSOFT = "com.microsoft"
LAYERS, HEADS, KV_HEADS, SIZE, INNER, WORDS, POSITIONS, BLOCK = 2, 4, 2, 16, 96, 80, 64, 32
WIDTH = HEADS * SIZE
random = np.random.default_rng(7)
nodes, constants = [], []


def constant(name, array):
    constants.append(numpy_helper.from_array(array, name))
    return name


def add(op, name, inputs, outputs=1, domain="", **attributes):
    names = [f"{name}/output_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    nodes.append(helper.make_node(op, inputs, names, name, domain=domain, **attributes))
    return names[0]


def norm_weight(name):
    return constant(name, (1 + 0.1 * random.standard_normal(WIDTH)).astype(np.float32))


def quantized(name, depth, columns, zeros):
    """Names of weights of four bits, their scales and zero points, as MatMulNBits takes them."""
    blocks = depth // BLOCK
    out = [constant(f"{name}.weight_Q4", random.integers(0, 256, (columns, blocks, BLOCK // 2), np.uint8)),
           constant(f"{name}.weight_scales", random.uniform(0.01, 0.04, (columns, blocks)).astype(np.float32))]
    if zeros:
        out.append(constant(f"{name}.weight_zp", random.integers(0x77, 0x89, (columns, (blocks + 1) // 2), np.uint8)))
    return out


def project(name, x, depth, columns, zeros=False, outputs=1, weights=None):
    return add("MatMulNBits", f"{name}/MatMulNBits", [x, *(weights or quantized(name, depth, columns, zeros))], outputs, MICROSOFT,
               K=depth, N=columns, bits=4, block_size=BLOCK, accuracy_level=0)


def mask_inputs():
    one, axes = constant("/model/constants/INT64/[1]", np.array([1], np.int64)), constant("/model/constants/INT64/1", np.array(1, np.int64))
    base = "/model/attn_mask_reformat/attn_mask_subgraph"
    total = add("ReduceSum", f"{base}/ReduceSum", ["attention_mask", one], keepdims=0)
    lengths = add("Cast", f"{base}/Sub/Cast", [add("Sub", f"{base}/Sub", [total, one])], to=TensorProto.INT32)
    size = add("Gather", f"{base}/Gather", [add("Shape", f"{base}/Shape", ["attention_mask"]), axes], axis=0)
    return lengths, add("Cast", f"{base}/Gather/Cast", [size], to=TensorProto.INT32)


def layer(i, x, root, masks, tables):
    base = f"/model/layers.{i}"
    qkv = project(f"{base}/attn/qkv_proj", x, WIDTH, (HEADS + 2 * KV_HEADS) * SIZE, zeros=i == 1)
    attention = add("GroupQueryAttention", f"{base}/attn/GroupQueryAttention",
                    [qkv, "", "", f"past_key_values.{i}.key", f"past_key_values.{i}.value", *masks, *tables],
                    [f"{base}/attn/GroupQueryAttention/output_0", f"present.{i}.key", f"present.{i}.value"], MICROSOFT,
                    num_heads=HEADS, kv_num_heads=KV_HEADS, scale=SIZE ** -0.5, local_window_size=-1, softcap=0.0, do_rotary=1, rotary_interleaved=0)
    mixed = project(f"{base}/attn/o_proj", attention, WIDTH, WIDTH)
    x, root = skip(f"{base}/post_attention_layernorm", root, mixed)
    gate = project(f"{base}/mlp/gate_proj", x, WIDTH, INNER)
    up = project(f"{base}/mlp/up_proj", x, WIDTH, INNER)
    silu = add("Mul", f"{base}/mlp/act_fn/Mul", [gate, add("Sigmoid", f"{base}/mlp/act_fn/Sigmoid", [gate])])
    down = project(f"{base}/mlp/down_proj", add("Mul", f"{base}/mlp/Mul", [silu, up]), INNER, WIDTH)
    last = i + 1 == LAYERS
    return skip("/model/layers.2/final_norm_layernorm" if last else f"/model/layers.{i + 1}/input_layernorm", root, down, last)


def skip(name, root, x, last=False):
    outputs = [f"{name}/output_0"] + ([] if last else ["", "", f"{name}/output_3"])
    add("SkipSimplifiedLayerNormalization", f"{name}/SkipLayerNorm", [root, x, norm_weight(f"{name}.weight")], outputs, MICROSOFT, epsilon=1e-5)
    return outputs[0], outputs[-1]


def make_model():
    head = quantized("lm_head", WIDTH, WORDS, False)
    rows = add("Reshape", "/model/embed_tokens/Reshape", [head[0], constant("/model/constants/INT64/[80, 32]", np.array([WORDS, WIDTH // 2], np.int64))])
    x = add("GatherBlockQuantized", "/model/embed_tokens/GatherBlockQuantized", [rows, "input_ids", head[1]], 1, MICROSOFT,
            bits=4, block_size=BLOCK, gather_axis=0, quantize_axis=1)
    angles = np.outer(np.arange(POSITIONS), 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    tables = [constant("cos_cache", np.cos(angles).astype(np.float32)), constant("sin_cache", np.sin(angles).astype(np.float32))]
    masks, root = mask_inputs(), x
    x = add("SimplifiedLayerNormalization", "/model/layers.0/input_layernorm/LayerNorm", [x, norm_weight("model.layers.0.input_layernorm.weight")],
            axis=-1, epsilon=1e-5, stash_type=1)
    for i in range(LAYERS):
        x, root = layer(i, x, root, masks, tables)
    project("/lm_head", x, WIDTH, WORDS, outputs=["logits"], weights=head)
    info = helper.make_tensor_value_info
    inputs = [info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]), info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])]
    outputs = [info("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", WORDS])]
    for i in range(LAYERS):
        for part in ("key", "value"):
            inputs.append(info(f"past_key_values.{i}.{part}", TensorProto.FLOAT, ["batch_size", KV_HEADS, "past_sequence_length", SIZE]))
            outputs.append(info(f"present.{i}.{part}", TensorProto.FLOAT, ["batch_size", KV_HEADS, "total_sequence_length", SIZE]))
    graph = helper.make_graph(nodes, "main_graph", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)], ir_version=10)


def run(session, name, inputs):
    names = [y.name for y in session.get_outputs()]
    results = dict(zip(names, session.run(None, inputs)))
    np.savez_compressed(FOLDER / f"genai_{name}.npz", **{f"in.{k}": v for k, v in inputs.items()}, **{f"out.{k}": v for k, v in results.items()})
    return results


def main():
    path = FOLDER / "genai.onnx"
    onnx.save(make_model(), path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    kinds = [f"{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]
    empty = {f"past_key_values.{k}": np.zeros((2, KV_HEADS, 0, SIZE), np.float32) for k in kinds}
    first = run(session, "prompt", {"input_ids": random.integers(0, WORDS, (2, 9)), "attention_mask": np.ones((2, 9), np.int64), **empty})
    run(session, "step", {"input_ids": first["logits"][:, -1:].argmax(2), "attention_mask": np.ones((2, 10), np.int64),
                          **{f"past_key_values.{k}": first[f"present.{k}"] for k in kinds}})


main()
