#!/usr/bin/env python3
"""Writes tests/onnx/decoder_cases.inc: what ONNX Runtime computes for operators of language models.

usage: tests/onnx/decoder_cases.py > tests/onnx/decoder_cases.inc (needs onnxruntime and onnx)
"""
import textwrap

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


class Pattern:
    """Numbers that the test makes, too: (i * step + 11) % 251, around zero and divided by 64."""

    def __init__(self, *shape, step=37):
        self.shape, self.step = shape, step

    def value(self):
        numbers = (np.arange(int(np.prod(self.shape))) * self.step + 11) % 251
        return ((numbers - 125) / 64).astype(np.float32).reshape(self.shape)

    def text(self):
        return f"pattern({{{', '.join(map(str, self.shape))}}}, {self.step})"


class Exact:
    """The numbers themselves; `known`: a constant of the model."""

    def __init__(self, dtype, numbers, known=False):
        self.dtype, self.array, self.known = dtype, np.array(numbers, {"i32": np.int32, "i64": np.int64, "u8": np.uint8, "f32": np.float32}[dtype]), known

    def value(self):
        return self.array

    def text(self):
        shape = ", ".join(map(str, self.array.shape))
        text = f"tensor(DType::k{self.dtype.upper()}, {{{shape}}}, {{{', '.join(map(str, self.array.ravel().tolist()))}}})"
        return f"known({text})" if self.known else text


P = Pattern


def i32(*numbers):
    return Exact("i32", list(numbers))


def total(number):
    return Exact("i32", [number], known=True)


NONE = None
# name: operator, attributes, inputs, outputs that are compared (False: not asked for)
CASES = {}


def case(name, op, inputs, attributes, outputs=(True,), rows=None, opset=21, instead=None):
    """rows: how many tokens of each sequence of output 0 mean something.

    instead: inputs that mean the same, for forms that ONNX Runtime does not take.
    """
    CASES[name] = (op, attributes, inputs, outputs, rows, opset, instead)


def gqa(name, inputs, attributes, rows=None, outputs=(True, False, False), instead=None):
    case(name, "GroupQueryAttention", inputs, {"num_heads": 2, "kv_num_heads": 1, **attributes}, outputs, rows, instead=instead)


def normed(x, weight, epsilon):
    """[batch, sequence, heads * size], each head divided by the root of its mean square."""
    rows = x.value().reshape(-1, weight.value().size)
    rows = rows / np.sqrt(np.mean(rows * rows, axis=1, keepdims=True) + epsilon) * weight.value()
    return Exact("f32", rows.reshape(x.shape))


QKV = [P(1, 3, 32), P(1, 3, 16, step=29), P(1, 3, 16, step=43)]
ONE = [P(2, 1, 32), P(2, 1, 16, step=29), P(2, 1, 16, step=43)]
CACHE = [P(1, 1, 4, 16, step=31), P(1, 1, 4, 16, step=59)]
CACHES = [P(2, 1, 4, 16, step=31), P(2, 1, 4, 16, step=59)]
TABLES = [P(9, 8, step=23), P(9, 8, step=19)]
SHORT = [P(9, 4, step=23), P(9, 4, step=19)]
ALL = (True, True, True)
NORMS = [P(16, step=71), P(16, step=83)]

gqa("GqaPrompt", [*QKV, NONE, NONE, i32(2), total(3)], {}, outputs=ALL)
gqa("GqaPromptPackedRotary", [P(2, 3, 64), NONE, NONE, NONE, NONE, i32(2, 1), total(3), *TABLES], {"do_rotary": 1}, rows=[3, 2])
gqa("GqaStep", [*ONE, *CACHES, i32(4, 4), total(5)], {"scale": 0.7}, outputs=ALL)
gqa("GqaStepOfSharedCache", [*ONE, *CACHES, i32(2, 1), total(3), *TABLES], {"do_rotary": 1, "rotary_interleaved": 1})
gqa("GqaChunk", [*QKV, *CACHE, i32(6), total(7), *TABLES], {"do_rotary": 1}, outputs=ALL)
gqa("GqaNorms", [*QKV, *CACHE, i32(6), total(7), *TABLES, *[NONE] * 5, *NORMS], {"do_rotary": 1, "qk_norm_epsilon": 0.001},
    instead=[normed(QKV[0], NORMS[0], 0.001), normed(QKV[1], NORMS[1], 0.001), QKV[2], *CACHE, i32(6), total(7), *TABLES])
gqa("GqaPartlyRotated", [P(1, 1, 64), P(1, 1, 32, step=29), P(1, 1, 32, step=43), P(1, 1, 2, 32, step=31), P(1, 1, 2, 32, step=59), i32(2), total(3), *TABLES], {"do_rotary": 1})
gqa("GqaPositions", [*QKV, *CACHE, i32(6), total(7), *TABLES, Exact("i64", [[2, 0, 5]])], {"do_rotary": 1})
gqa("GqaPositionsOfPrompt", [P(2, 3, 32), P(2, 3, 16, step=29), P(2, 3, 16, step=43), NONE, NONE, i32(2, 2), total(3), *TABLES, Exact("i64", [[2, 0, 5], [1, 1, 1]])], {"do_rotary": 1}, outputs=ALL)
gqa("GqaWindow", [*QKV, *CACHE, i32(6), total(7)], {"local_window_size": 3})
gqa("GqaSoftcapAndBias", [*QKV, *CACHE, i32(6), total(7), NONE, NONE, NONE, P(1, 2, 3, 7, step=13)], {"softcap": 1.5})
gqa("GqaSmooth", [*QKV, *CACHE, i32(6), total(7)], {"smooth_softmax": 1})
gqa("GqaNotSmooth", [*QKV, *CACHE, i32(6), total(7)], {"smooth_softmax": -1})
gqa("GqaSinkAndWindow", [*QKV, *CACHE, i32(6), total(7), NONE, NONE, NONE, NONE, P(2, step=77)], {"local_window_size": 2})
gqa("GqaScoresBefore", [*QKV, *CACHE, i32(6), total(7)], {"qk_output": 1, "softcap": 1.5}, outputs=(True, False, False, True))
gqa("GqaScoresAfter", [*QKV, *CACHE, i32(6), total(7)], {"qk_output": 2}, outputs=(True, False, False, True))
gqa("GqaBothWays", [*QKV, *CACHE, i32(6), total(7)], {"causal": 0})

case("Rotary", "RotaryEmbedding", [P(2, 3, 16), Exact("i64", [[1, 2, 3], [0, 4, 2]]), *SHORT], {})
case("RotaryFromOn", "RotaryEmbedding", [P(2, 2, 3, 8), Exact("i64", [2]), *SHORT], {"interleaved": 1})
case("RotaryOfPart", "RotaryEmbedding", [P(2, 3, 16), Exact("i64", [[1, 2, 3], [0, 4, 2]]), P(9, 2, step=23), P(9, 2, step=19)], {"num_heads": 2, "rotary_embedding_dim": 4})


def mha(name, inputs, attributes=None, outputs=(True,), instead=None):
    case(name, "MultiHeadAttention", inputs, {"num_heads": 2, **(attributes or {})}, outputs, instead=instead)


def parts(packed, count):
    """[batch, sequence, heads, count, size] as projections of their own."""
    x = packed.value()
    return [Exact("f32", x[:, :, :, i].reshape(x.shape[0], x.shape[1], -1)) for i in range(count)]


Q, K, V = P(2, 3, 8), P(2, 4, 8, step=29), P(2, 4, 6, step=43)
SAME = [P(2, 3, 8), P(2, 3, 8, step=29), P(2, 3, 8, step=43)]
PAST = [P(2, 2, 2, 4, step=31), P(2, 2, 2, 4, step=59)]
mha("Mha", [Q, K, V, P(22, step=17)])
mha("MhaPacked", [P(2, 3, 2, 3, 4)], instead=parts(P(2, 3, 2, 3, 4), 3))
mha("MhaPackedKeys", [Q, P(2, 4, 2, 2, 4, step=29)], instead=[Q, *parts(P(2, 4, 2, 2, 4, step=29), 2)])
mha("MhaOfHeads", [Q, P(2, 2, 4, 4, step=29), P(2, 2, 4, 4, step=43)], {"scale": 0.3})
mha("MhaLengths", [Q, K, V, NONE, i32(3, 1)], {"mask_filter_value": -3.0})
mha("MhaMask", [Q, K, V, NONE, Exact("i32", [[1, 0, 1, 1], [0, 0, 1, 1]])])
mha("MhaMaskOfQueries", [Q, K, V, NONE, Exact("i32", [[[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 0]], [[0, 0, 0, 1], [1, 1, 1, 1], [0, 1, 0, 1]]])])
mha("MhaPast", [*SAME, P(24, step=17), Exact("i32", [[1, 1, 1, 0, 1], [0, 1, 1, 1, 1]]), P(1, 2, 3, 5, step=13), *PAST], outputs=(True, True, True))
mha("MhaCausal", [*SAME, NONE, NONE, NONE, *PAST], {"unidirectional": 1}, outputs=(True, True, True))
mha("MhaScores", [*SAME], {"unidirectional": 1}, outputs=(True, False, False, True))


def attention(name, inputs, attributes=None, outputs=(True,), instead=None):
    case(name, "Attention", inputs, {"num_heads": 2, **(attributes or {})}, outputs, instead=instead)


X, W, B = P(2, 3, 5), P(5, 24, step=29), P(24, step=43)
attention("Attention", [X, W, B])
attention("AttentionOfWidths", [X, P(5, 20, step=29), P(20, step=43)], {"qkv_hidden_sizes": [8, 8, 4], "scale": 0.2})
attention("AttentionLengths", [X, W, B, i32(3, 2)])
attention("AttentionEndsAndStarts", [X, W, B, i32(3, 3, 0, 1)], {"mask_filter_value": -5.0})
attention("AttentionMask", [X, W, B, Exact("i32", [[1, 1, 0], [0, 1, 1]])], {"unidirectional": 1})
attention("AttentionMaskOfQueries", [X, W, B, Exact("i32", [[[1, 0, 1], [0, 1, 1], [1, 1, 0]], [[0, 0, 1], [1, 1, 1], [0, 1, 0]]])])
attention("AttentionPast", [X, W, B, Exact("i32", [[1, 1, 1, 0, 1], [0, 1, 1, 1, 1]]), P(2, 2, 2, 2, 4, step=31)], {"unidirectional": 1}, outputs=(True, True))
attention("AttentionBias", [X, W, B, NONE, NONE, P(1, 2, 3, 3, step=13)])
SQUARE = np.tril(np.ones((6, 6), np.int32))
SQUARE[4, 1] = 0
attention("AttentionSquareMask", [X, W, B, Exact("i32", np.broadcast_to(SQUARE, (2, 1, 6, 6)).tolist()), P(2, 2, 2, 2, 4, step=31)], {}, outputs=(True, True),
          instead=[X, W, B, Exact("i32", np.broadcast_to(SQUARE[2:5, :5], (2, 3, 5)).tolist()), P(2, 2, 2, 2, 4, step=31)])


class Table:
    """Bytes that are known: (i * 37 + 11) % 251."""

    known = True

    def __init__(self, *shape):
        self.shape = shape

    def value(self):
        return ((np.arange(int(np.prod(self.shape))) * 37 + 11) % 251).astype(np.uint8).reshape(self.shape)

    def text(self):
        return f"known(bytes({{{', '.join(map(str, self.shape))}}}))"



IDS = Exact("i64", [[4, 0], [-1, 2]])
case("GatherNibbles", "GatherBlockQuantized", [Table(5, 16), IDS, P(5, 2, step=29)], {"bits": 4, "block_size": 16})
case("GatherNibblesWithZeros", "GatherBlockQuantized", [Table(5, 24), IDS, P(5, 3, step=29), Table(5, 2)], {"bits": 4, "block_size": 16})
case("GatherBytes", "GatherBlockQuantized", [Table(5, 24), IDS, P(5, 2, step=29), Table(5, 2)], {"bits": 8, "block_size": 16})
case("GatherPairs", "GatherBlockQuantized", [Table(3, 8), Exact("i64", [2, 1]), P(3, 2, step=29)], {"bits": 2, "block_size": 16})

case("SkipNormAndSum", "SkipLayerNormalization", [P(2, 3, 8), P(2, 3, 8, step=29), P(8, step=43), P(8, step=31), P(8, step=59)], {"epsilon": 1e-5}, (True, False, False, True))
case("SkipOfOneSequence", "SkipLayerNormalization", [P(2, 3, 8), P(3, 8, step=29), P(8, step=43)], {"epsilon": 1e-5}, (True, False, False, True))
case("SkipRmsAndSum", "SkipSimplifiedLayerNormalization", [P(2, 3, 8), P(2, 3, 8, step=29), P(8, step=43), P(8, step=59)], {"epsilon": 1e-5}, (True, False, False, True))
case("SkipRmsOfSmallNumbers", "SkipSimplifiedLayerNormalization", [Exact("f32", [[[1e-4, 2e-4]]]), Exact("f32", [[[1e-4, 0]]]), P(2, step=43)], {})
case("LayerNormOfOpset11", ":LayerNormalization", [P(2, 3, 8), P(8, step=43), P(8, step=31)], {"epsilon": 1e-5}, opset=11)


X, ROUTER = P(5, 16), P(5, 4, step=53)


def experts(name, op, extra, attributes, instead=None):
    case(name, op, [X, ROUTER, *extra], {"k": 2, **attributes}, instead=instead)


def layers(fusion=1, inner=8):
    return [P(4, inner * fusion, 16, step=29), P(4, inner * fusion, step=17), P(4, 16, inner, step=43), P(4, 16, step=19)]


SWIGLU = {"activation_type": "swiglu", "activation_alpha": 1.702, "activation_beta": 1.0}
experts("MoeOfOne", "MoE", layers(), {"k": 1})
experts("MoeGelu", "MoE", layers(), {"activation_type": "gelu", "normalize_routing_weights": 1})
experts("MoeSilu", "MoE", [P(4, 8, 16, step=29), NONE, P(4, 16, 8, step=43)], {"activation_type": "silu"})
experts("MoeSwiglu", "MoE", layers(2), {**SWIGLU, "swiglu_fusion": 1, "swiglu_limit": 1.5})


def halves(x):
    """Columns of the gate, then those of its factor, from columns by turns."""
    value = x.value()
    return Exact("f32", np.concatenate([value[:, 0::2], value[:, 1::2]], 1))


TURNS = layers(2, 3)
experts("MoeSwigluOfHalves", "MoE", [halves(TURNS[0]), halves(TURNS[1]), *TURNS[2:]], {**SWIGLU, "swiglu_fusion": 2}, instead=[X, ROUTER, *TURNS])
experts("MoeSwigluOfThree", "MoE", [Exact("f32", TURNS[0].value()[:, 0::2]), Exact("f32", TURNS[1].value()[:, 0::2]), *TURNS[2:],
                                    Exact("f32", TURNS[0].value()[:, 1::2]), Exact("f32", TURNS[1].value()[:, 1::2])], {**SWIGLU, "swiglu_fusion": 0}, instead=[X, ROUTER, *TURNS])

NARROW = [Table(4, 16, 8), P(4, 16, step=17), P(4, 16, step=23), Table(4, 16, 8), P(4, 16, step=19), P(4, 16, step=31)]
experts("QMoeNibbles", "QMoE", NARROW, {"activation_type": "silu", "normalize_routing_weights": 1})
experts("QMoeNotNormalised", "QMoE", NARROW, {"activation_type": "silu"})
experts("QMoeBlocks", "QMoE", [Table(4, 32, 16), P(4, 32, 1, step=17), NONE, Table(4, 16, 32), P(4, 16, 2, step=19), NONE, NONE, NONE, NONE, Table(4, 32, 1), Table(4, 16, 2)],
        {"activation_type": "silu", "expert_weight_bits": 8, "block_size": 16, "normalize_routing_weights": 1})
experts("QMoeRouted", "QMoE", [*NARROW, *[NONE] * 6, Exact("f32", (np.abs(P(5, 4, step=61).value()) + 0.25).tolist())], {"activation_type": "silu"})


def attribute_text(name, value):
    if isinstance(value, list):
        return f'ints("{name}", {{{", ".join(map(str, value))}}})'
    if isinstance(value, float):
        return f'attr("{name}", {value}F)'
    return f'attr("{name}", "{value}")' if isinstance(value, str) else f'attr("{name}", std::int64_t{{{value}}})'


def computed(op, attributes, inputs, outputs, opset):
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    domain = "" if op.startswith(":") else MICROSOFT
    # Without its cache, GroupQueryAttention leaves parts of output 0 unwritten.
    asked = [f"y{i}" if wanted or op == "GroupQueryAttention" else "" for i, wanted in enumerate(outputs)]
    node = helper.make_node(op.lstrip(":"), names, asked, domain=domain, **attributes)
    given = {n: x.value() for n, x in zip(names, inputs) if x is not None and not getattr(x, "known", False)}
    constants = [numpy_helper.from_array(x.value(), n) for n, x in zip(names, inputs) if x is not None and n not in given]
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()]
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in asked if y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([y for y in asked if y], session.run(None, given)))


def numbers_text(values):
    # What hidden keys contributed is not compared: engines differ in the number that they write.
    return ", ".join("kAny" if not abs(v) < 1e6 else f"{v:.6g}" for v in values.ravel().tolist())


def main():
    print("// Written by decoder_cases.py with ONNX Runtime", onnxruntime.__version__)
    for name, (op, attributes, inputs, outputs, rows, opset, instead) in CASES.items():
        try:
            found = computed(op, {**attributes, **({'swiglu_fusion': 1} if instead and op == 'MoE' else {})}, instead or inputs, outputs, opset)
        except Exception as error:  # the operator is not implemented: name it and go on
            raise SystemExit(f"{name}: {error}") from error
        results = [np.array(found[f"y{i}"], np.float64) for i, wanted in enumerate(outputs) if wanted]
        for b, count in enumerate(rows or []):
            results[0][b, count:] = np.nan
        domain = "" if op.startswith(":") else MICROSOFT
        left = ", ".join(str(i) for i, wanted in enumerate(outputs) if not wanted)
        unasked = f", .unasked = {{{left}}}" if left else ""
        print(f'{{"{name}", {{.op = "{op.lstrip(":")}", .opset = {opset}, .attributes = {{{", ".join(attribute_text(k, v) for k, v in attributes.items())}}}, .outputs = {len(outputs)}, .domain = "{domain}"{unasked}}},')
        print(f' {{{", ".join("omitted()" if x is None else x.text() for x in inputs)}}},')
        wide = " {" + ", ".join("{" + numbers_text(y) + "}" for y in results) + "}},"
        print("\n".join(textwrap.wrap(wide, 120, initial_indent=" ", subsequent_indent=" ", break_long_words=False)))


main()
