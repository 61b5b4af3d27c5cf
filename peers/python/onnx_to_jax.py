"""An ONNX graph as a function of JAX arrays, with shapes and constants known.

A handler gets its node `n` and the node's inputs: NumPy arrays where the value is known, traced arrays otherwise.
"""
import jax
import jax.numpy as jnp
import numpy
import onnx
from jax import lax

from driver import Refused
from onnx_files import Handlers

handles = Handlers()


class Node:
    """What a handler may ask of its node."""

    def __init__(self, proto, inputs):
        self.type, self.inputs, self.outputs = proto.op_type, inputs, list(proto.output)
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}

    def get(self, name, default=None):
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def has(self, i):
        return i < len(self.inputs) and self.inputs[i] is not None

    def ints(self, i, name, default=None):
        """Input i, whose value must be known, or the attribute that older files have for it."""
        if not self.has(i):
            return self.get(name, default)
        if not isinstance(self.inputs[i], numpy.ndarray):
            raise Refused(f"{self.type}: its input {i} is computed, which the XLA driver does not follow")
        return self.inputs[i].flatten().tolist()


class Program:
    """The graph; `weights` are its large constants, which may be arrays of a device."""

    def __init__(self, graph, inputs, outputs, dtype):
        self.graph, self.inputs, self.outputs = graph, list(inputs), list(outputs)
        self.known = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
        large = [n for n, a in self.known.items() if a.size > 64]
        self.weights = {n: cast_float(self.known.pop(n), dtype) for n in large}
        self.known = {n: cast_float(a, dtype) for n, a in self.known.items()}
        self.dtype = dtype

    def __call__(self, weights, inputs):
        values = {"": None, **self.known, **weights, **dict(zip(self.inputs, inputs))}
        for proto in self.graph.node:
            handler = handles.get(proto.op_type)
            if handler is None or proto.domain not in ("", "ai.onnx"):
                raise Refused(f"the XLA driver has no operator {proto.op_type}")
            node = Node(proto, [values[name] for name in proto.input])
            results = handler(node, *node.inputs)
            results = results if isinstance(results, (list, tuple)) else [results]
            for name, value in zip(proto.output, results):
                values[name] = cast_float(value, self.dtype) if proto.op_type == "Constant" else value
        return tuple(values[name] for name in self.outputs)


def cast_float(array, dtype):
    if array.dtype != numpy.float32:
        return array
    # Masks hold the least f32 for "never": infinite as f16, and not a number once two of them meet.
    largest = numpy.finfo(dtype).max
    return numpy.where(numpy.isfinite(array), numpy.clip(array, -largest, largest), array).astype(dtype)


def module(*arrays):
    """NumPy where everything is known, so that shapes stay known."""
    return numpy if all(isinstance(a, (numpy.ndarray, numpy.generic)) for a in arrays) else jnp


# Element by element.

SIMPLE = {
    "Abs": "abs", "Add": "add", "And": "logical_and", "Ceil": "ceil", "Cos": "cos", "Equal": "equal", "Exp": "exp",
    "Floor": "floor", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less",
    "LessOrEqual": "less_equal", "Log": "log", "Mul": "multiply", "Neg": "negative", "Not": "logical_not",
    "Or": "logical_or", "Sign": "sign", "Sin": "sin", "Sqrt": "sqrt", "Sub": "subtract", "Tanh": "tanh", "Where": "where",
}


@handles(*SIMPLE)
def simple(n, *inputs):
    return getattr(module(*inputs), SIMPLE[n.type])(*inputs)


ACTIVATIONS = {
    "Erf": jax.scipy.special.erf, "HardSwish": jax.nn.hard_swish, "Relu": jax.nn.relu, "Sigmoid": jax.nn.sigmoid,
    "Softplus": jax.nn.softplus, "Reciprocal": lambda x: 1 / x,
}


@handles(*ACTIVATIONS)
def activation(n, x):
    return ACTIVATIONS[n.type](x)


@handles("Identity", "Dropout")
def identity(n, x, *unused):
    return x


@handles("Pow")
def power(n, x, y):
    if isinstance(y, numpy.ndarray) and y.size == 1 and float(y.reshape(-1)[0]).is_integer():
        return x ** int(y.reshape(-1)[0])
    return module(x, y).power(x, y)


@handles("Div")
def divide(n, a, b):
    if jnp.issubdtype(a.dtype, jnp.floating):
        return a / b
    return lax.div(*jnp.broadcast_arrays(a, b)) if module(a, b) is jnp else (a / b).astype(a.dtype)


@handles("Max", "Min")
def extremum(n, first, *rest):
    for x in rest:
        xp = module(first, x)
        first = xp.maximum(first, x) if n.type == "Max" else xp.minimum(first, x)
    return first


@handles("Clip")
def clip(n, x, low=None, high=None):
    low = n.get("min") if low is None else low
    high = n.get("max") if high is None else high
    return jnp.clip(x, low, high).astype(x.dtype)


@handles("HardSigmoid")
def hard_sigmoid(n, x):
    return jnp.clip(x * n.get("alpha", 0.2) + n.get("beta", 0.5), 0, 1).astype(x.dtype)


@handles("LeakyRelu")
def leaky_relu(n, x):
    return jax.nn.leaky_relu(x, n.get("alpha", 0.01))


@handles("Gelu")
def gelu(n, x):
    return jax.nn.gelu(x, approximate=n.get("approximate", "none") == "tanh")


@handles("Cast")
def cast(n, x):
    return x.astype(onnx.helper.tensor_dtype_to_np_dtype(n.get("to")))


# Products and windows.

@handles("MatMul")
def matmul(n, a, b):
    return jnp.matmul(a, b)


@handles("Gemm")
def gemm(n, a, b, c=None):
    product = jnp.matmul(a.T if n.get("transA", 0) else a, b.T if n.get("transB", 0) else b)
    alpha, beta = n.get("alpha", 1.0), n.get("beta", 1.0)
    product = product if alpha == 1 else product * alpha
    return product if c is None else product + (c if beta == 1 else c * beta)


def pads_of(n, shape, kernel, stride, dilation):
    """Before and after each axis."""
    rank, auto = len(kernel), n.get("auto_pad", "NOTSET")
    if auto == "NOTSET":
        pads = n.get("pads", [0] * (2 * rank))
        return list(zip(pads[:rank], pads[rank:]))
    if auto == "VALID":
        return [(0, 0)] * rank
    result = []
    for size, k, s, d in zip(shape, kernel, stride, dilation):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small = total // 2
        result.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return result


SPATIAL = "DHW"


@handles("Conv")
def conv(n, x, w, b=None):
    rank = x.ndim - 2
    space = SPATIAL[3 - rank:]
    stride, dilation = n.get("strides", [1] * rank), n.get("dilations", [1] * rank)
    y = lax.conv_general_dilated(x, w, stride, pads_of(n, x.shape[2:], w.shape[2:], stride, dilation),
                                 rhs_dilation=dilation, feature_group_count=n.get("group", 1),
                                 dimension_numbers=("NC" + space, "OI" + space, "NC" + space))
    return y if b is None else y + b.reshape((1, -1) + (1,) * rank)


@handles("ConvTranspose")
def conv_transpose(n, x, w, b=None):
    rank = x.ndim - 2
    if n.get("group", 1) != 1 or "output_shape" in n.attributes or n.get("auto_pad", "NOTSET") != "NOTSET":
        raise Refused("ConvTranspose with groups or a shape of its own")
    space = SPATIAL[3 - rank:]
    stride, dilation = n.get("strides", [1] * rank), n.get("dilations", [1] * rank)
    more = n.get("output_padding", [0] * rank)
    pads = pads_of(n, x.shape[2:], w.shape[2:], stride, dilation)
    reach = [d * (k - 1) for k, d in zip(w.shape[2:], dilation)]
    around = [(r - before, r - after + m) for r, (before, after), m in zip(reach, pads, more)]
    turned = jnp.flip(w, tuple(range(2, w.ndim)))
    y = lax.conv_general_dilated(x, turned, [1] * rank, around, lhs_dilation=stride, rhs_dilation=dilation,
                                 dimension_numbers=("NC" + space, "IO" + space, "NC" + space))
    return y if b is None else y + b.reshape((1, -1) + (1,) * rank)


@handles("MaxPool", "AveragePool")
def pool(n, x):
    if len(n.outputs) > 1:
        raise Refused("MaxPool with indices")
    kernel, rank = n.get("kernel_shape"), x.ndim - 2
    stride, dilation = n.get("strides", [1] * rank), n.get("dilations", [1] * rank)
    pads = pads_of(n, x.shape[2:], kernel, stride, dilation)
    if n.get("ceil_mode", 0):
        more = [-(size + b + a - d * (k - 1) - 1) % s
                for size, (b, a), k, s, d in zip(x.shape[2:], pads, kernel, stride, dilation)]
        if any(more) and n.type == "AveragePool":
            raise Refused("AveragePool that rounds up")
        pads = [(b, a + m) for (b, a), m in zip(pads, more)]
    window, step, apart = (1, 1, *kernel), (1, 1, *stride), (1, 1, *dilation)
    around = ((0, 0), (0, 0), *pads)
    if n.type == "MaxPool":
        return lax.reduce_window(x, numpy.array(-numpy.inf, x.dtype), lax.max, window, step, around, None, apart)
    zero = numpy.array(0, x.dtype)
    total = lax.reduce_window(x, zero, lax.add, window, step, around, None, apart)
    if n.get("count_include_pad", 0):
        return total / numpy.array(numpy.prod(kernel), x.dtype)
    counts = lax.reduce_window(jnp.ones((1, 1, *x.shape[2:]), x.dtype), zero, lax.add, window, step, around, None, apart)
    return total / counts


@handles("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n, x):
    axes = tuple(range(2, x.ndim))
    return (jnp.mean if n.type == "GlobalAveragePool" else jnp.max)(x, axes, keepdims=True)


# Norms and reductions.

@handles("BatchNormalization")
def batch_norm(n, x, scale, bias, mean, variance):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    factor = scale * lax.rsqrt(jnp.asarray(variance + numpy.array(n.get("epsilon", 1e-5), variance.dtype)))
    return x * factor.reshape(shape) + (bias - mean * factor).reshape(shape)


@handles("LayerNormalization")
def layer_norm(n, x, scale, bias=None):
    axes = tuple(range(n.get("axis", -1) % x.ndim, x.ndim))
    wide = x.astype(jnp.float32)
    middle = wide - jnp.mean(wide, axes, keepdims=True)
    y = middle * lax.rsqrt(jnp.mean(middle * middle, axes, keepdims=True) + n.get("epsilon", 1e-5))
    y = y.astype(x.dtype) * scale
    return y if bias is None else y + bias


@handles("Softmax", "LogSoftmax")
def softmax(n, x):
    return (jax.nn.softmax if n.type == "Softmax" else jax.nn.log_softmax)(x, n.get("axis", -1))


REDUCTIONS = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}


@handles(*REDUCTIONS)
def reduce(n, x, *unused):
    axes = n.ints(1, "axes")
    if not axes and n.get("noop_with_empty_axes", 0):
        return x
    return getattr(module(x), REDUCTIONS[n.type])(x, tuple(axes) if axes else None, keepdims=bool(n.get("keepdims", 1)))


# Shapes and places.

@handles("Constant")
def constant(n):
    for name, dtype in (("value_float", "float32"), ("value_int", "int64"), ("value_floats", "float32"),
                        ("value_ints", "int64")):
        if name in n.attributes:
            return numpy.array(n.attributes[name], dtype)
    return onnx.numpy_helper.to_array(n.attributes["value"])


@handles("ConstantOfShape")
def constant_of_shape(n, shape):
    value = onnx.numpy_helper.to_array(n.attributes["value"]) if "value" in n.attributes else numpy.zeros(1, "float32")
    return numpy.full(n.ints(0, ""), value.reshape(-1)[0])


@handles("Shape")
def shape_of(n, x):
    return numpy.array(x.shape[n.get("start", 0):n.get("end", None)], "int64")


@handles("Reshape")
def reshape(n, x, shape):
    sizes = n.ints(1, "")
    if not n.get("allowzero", 0):
        sizes = [x.shape[i] if s == 0 else s for i, s in enumerate(sizes)]
    return x.reshape(sizes)


@handles("Flatten")
def flatten(n, x):
    return x.reshape((int(numpy.prod(x.shape[:n.get("axis", 1)])), -1))


@handles("Transpose")
def transpose(n, x):
    return x.transpose(n.get("perm", list(reversed(range(x.ndim)))))


@handles("Unsqueeze")
def unsqueeze(n, x, *unused):
    return module(x).expand_dims(x, tuple(n.ints(1, "axes")))


@handles("Squeeze")
def squeeze(n, x, *unused):
    axes = n.ints(1, "axes")
    return x.squeeze(None if axes is None else tuple(axes))


@handles("Concat")
def concat(n, *inputs):
    return module(*inputs).concatenate(inputs, n.get("axis"))


@handles("Split")
def split(n, x, *unused):
    axis, sizes = n.get("axis", 0), n.ints(1, "split")
    if sizes is None:
        each = -(-x.shape[axis] // len(n.outputs))
        sizes = [each] * (len(n.outputs) - 1)
    else:
        sizes = sizes[:-1]
    return module(x).split(x, numpy.cumsum(sizes).tolist(), axis)


@handles("Slice")
def slice_of(n, x, *unused):
    starts, ends = n.ints(1, "starts"), n.ints(2, "ends")
    axes = n.ints(3, "axes", list(range(len(starts))))
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, n.ints(4, "", [1] * len(starts))):
        size = x.shape[axis]
        index[axis] = slice(start, None if step < 0 and end < -size else min(end, size), step)
    return x[tuple(index)]


@handles("Gather")
def gather(n, x, indices):
    return module(x, indices).take(x, indices, n.get("axis", 0))


@handles("Expand")
def expand(n, x, shape):
    xp = module(x)
    return xp.broadcast_to(x, numpy.broadcast_shapes(x.shape, tuple(n.ints(1, ""))))


@handles("Range")
def range_of(n, start, limit, delta):
    return numpy.arange(*(n.ints(i, "")[0] for i in range(3)), dtype=start.dtype)


@handles("Pad")
def pad(n, x, *unused):
    pads = n.ints(1, "pads")
    if n.get("mode", "constant") != "constant" or n.has(3):
        raise Refused("Pad other than with a constant on all axes")
    value = n.ints(2, "value", [0])
    return jnp.pad(x, list(zip(pads[:x.ndim], pads[x.ndim:])), constant_values=value[0] if value else 0)
