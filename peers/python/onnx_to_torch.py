"""An ONNX graph as a torch.fx module: straight PyTorch calls, with shapes and constants known.

Every handler below gets its node `n` and the node's inputs, and is called twice: with tensors, which tells the shapes of
what follows, and with proxies, which writes the calls into the module.
"""
import numpy
import onnx
import torch
import torch.nn.functional as F

from driver import Refused
from onnx_files import Handlers
from onnx_patterns import put_together

handles = Handlers()
DTYPES = {1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32, 7: torch.int64,
          9: torch.bool, 10: torch.float16, 11: torch.float64, 16: torch.bfloat16}


class Value:
    """`example` is a tensor of the right shape; a constant's is its value, and it has no proxy."""

    def __init__(self, example, proxy=None):
        self.example, self.proxy = example, proxy


def to_torch(tensor):
    array = onnx.numpy_helper.to_array(tensor)
    if tensor.data_type == onnx.TensorProto.BFLOAT16:
        return torch.from_numpy(array.astype(numpy.float32)).bfloat16()
    return torch.from_numpy(array.copy())


class Node:
    """What a handler may ask of its node."""

    def __init__(self, builder, proto, values):
        self.type, self.outputs = proto.op_type, [o for o in proto.output]
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        self.builder, self.values = builder, values
        self.proxied = False

    def get(self, name, default=None):
        value = self.attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def shape(self, i=0):
        return tuple(self.values[i].example.shape)

    def rank(self, i=0):
        return self.values[i].example.dim()

    def has(self, i):
        return i < len(self.values) and self.values[i] is not None

    def constant(self, i):
        """Input i, whose value must be known."""
        if self.values[i].proxy is not None:
            raise Refused(f"{self.type}: its input {i} is computed, which the PyTorch driver does not follow")
        return self.values[i].example

    def is_constant(self, i):
        return self.has(i) and self.values[i].proxy is None

    def ints(self, i, default=None):
        return self.constant(i).flatten().tolist() if self.has(i) else default

    def hold(self, tensor):
        """A new constant of the module."""
        return self.builder.hold(tensor) if self.proxied else tensor


class Builder:
    def __init__(self):
        self.graph = torch.fx.Graph()
        self.tracer = torch.fx.proxy.GraphAppendingTracer(self.graph)
        self.root = torch.nn.Module()
        self.held = 0

    def wrap(self, node):
        return torch.fx.Proxy(node, self.tracer)

    def hold(self, tensor):
        name = f"constant{self.held}"
        self.held += 1
        self.root.register_buffer(name, tensor.contiguous(), persistent=False)
        return self.wrap(self.graph.get_attr(name))

    def add(self, proto, values):
        handler = handles.get(proto.op_type)
        if handler is None or proto.domain not in ("", "ai.onnx"):
            raise Refused(f"the PyTorch driver has no operator {proto.op_type}")
        node = Node(self, proto, values)
        examples = as_list(handler(node, *[v.example if v else None for v in values]))
        if proto.op_type == "Shape" or all(v is None or v.proxy is None for v in values):
            return [Value(e) for e in examples]
        node.proxied = True
        arguments = [v and (self.hold(v.example) if v.proxy is None else v.proxy) for v in values]
        proxies = as_list(handler(node, *arguments))
        return [Value(e, p) for e, p in zip(examples, proxies)]


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def convert(graph, inputs, outputs):
    """The graph as a module that takes `inputs` (name: example) in their order and returns `outputs` as a tuple."""
    builder = Builder()
    values = {"": None}
    for tensor in graph.initializer:
        values[tensor.name] = Value(to_torch(tensor))
    for i, (name, example) in enumerate(inputs.items()):
        values[name] = Value(example, builder.wrap(builder.graph.placeholder(f"input{i}")))
    for proto in put_together(graph):
        arguments = [values[name] for name in proto.input]
        for name, value in zip(proto.output, builder.add(proto, arguments)):
            values[name] = value
    results = []
    for name in outputs:
        value = values[name]
        results.append((builder.hold(value.example) if value.proxy is None else value.proxy).node)
    builder.graph.output(tuple(results))
    builder.graph.eliminate_dead_code()
    return torch.fx.GraphModule(builder.root, builder.graph).eval()


# Element by element.

SIMPLE = {
    "Abs": torch.abs, "Add": torch.add, "And": torch.logical_and, "Ceil": torch.ceil, "Cos": torch.cos, "Erf": torch.erf,
    "Equal": torch.eq, "Exp": torch.exp, "Floor": torch.floor, "Greater": torch.gt, "GreaterOrEqual": torch.ge,
    "HardSwish": F.hardswish, "Less": torch.lt, "LessOrEqual": torch.le, "Log": torch.log, "Mul": torch.mul,
    "Neg": torch.neg, "Not": torch.logical_not, "Or": torch.logical_or, "Pow": torch.pow, "Reciprocal": torch.reciprocal,
    "Relu": F.relu, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin, "Sqrt": torch.sqrt,
    "Sub": torch.sub, "Tanh": torch.tanh, "Softplus": F.softplus, "Where": torch.where,
}


@handles(*SIMPLE)
def simple(n, *inputs):
    return SIMPLE[n.type](*inputs)


@handles("Identity", "Dropout")
def identity(n, x, *unused):
    return x


@handles("Div")
def divide(n, a, b):
    if n.values[0].example.is_floating_point():
        return torch.div(a, b)
    return torch.div(a, b, rounding_mode="trunc")


@handles("Max", "Min")
def extremum(n, first, *rest):
    for x in rest:
        first = torch.maximum(first, x) if n.type == "Max" else torch.minimum(first, x)
    return first


@handles("Clip")
def clip(n, x, *unused):
    def bound(i, name):
        return n.constant(i).item() if n.has(i) else n.get(name)
    return torch.clamp(x, bound(1, "min"), bound(2, "max"))


@handles("HardSigmoid")
def hard_sigmoid(n, x):
    alpha, beta = n.get("alpha", 0.2), n.get("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        return F.hardsigmoid(x)
    return torch.clamp(x * alpha + beta, 0, 1)


@handles("LeakyRelu")
def leaky_relu(n, x):
    return F.leaky_relu(x, n.get("alpha", 0.01))


@handles("Gelu")
def gelu(n, x):
    return F.gelu(x, approximate=n.get("approximate", "none"))


@handles("Elu")
def elu(n, x):
    return F.elu(x, n.get("alpha", 1.0))


@handles("PRelu")
def prelu(n, x, slope):
    return torch.where(x < 0, x * slope, x)


@handles("Cast")
def cast(n, x):
    to = n.get("to")
    if to not in DTYPES:
        raise Refused(f"Cast to ONNX type {to}")
    return x.to(DTYPES[to])


# Products and windows.

@handles("MatMul")
def matmul(n, a, b, bias=None):
    if n.is_constant(1) and n.rank(1) == 2:
        return F.linear(a, n.hold(n.constant(1).t().contiguous()), bias)
    return torch.matmul(a, b)


@handles("ScaledDotProduct")
def attention(n, q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k.transpose(-2, -1), v, attn_mask=mask, scale=n.get("scale"))


@handles("Gemm")
def gemm(n, a, b, c=None):
    alpha, beta = n.get("alpha", 1.0), n.get("beta", 1.0)
    if n.get("transA", 0):
        a = a.t()
    plain = alpha == 1 and (c is None or (beta == 1 and n.rank(2) == 1))
    if plain and n.is_constant(1):
        weights = n.constant(1)
        return F.linear(a, n.hold(weights if n.get("transB", 0) else weights.t().contiguous()), c)
    product = torch.matmul(a, b.t() if n.get("transB", 0) else b)
    if alpha != 1:
        product = product * alpha
    if c is None:
        return product
    return product + (c if beta == 1 else c * beta)


def pads_of(n, kernel, stride, dilation, rank):
    """Before and after each axis."""
    auto = n.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, s, d in zip(n.shape()[2:], kernel, stride, dilation):
            total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            small, large = total // 2, total - total // 2
            before.append(small if auto == "SAME_UPPER" else large)
            after.append(large if auto == "SAME_UPPER" else small)
        return before, after
    pads = list(n.get("pads", [0] * (2 * rank))) if auto == "NOTSET" else [0] * (2 * rank)
    return pads[:rank], pads[rank:]


def widen(x, before, after, value):
    flat = []
    for b, a in zip(reversed(before), reversed(after)):
        flat += [b, a]
    return F.pad(x, flat, value=value)


@handles("Conv")
def conv(n, x, w, b=None):
    rank = n.rank() - 2
    kernel = n.shape(1)[2:]
    stride, dilation = n.get("strides", [1] * rank), n.get("dilations", [1] * rank)
    before, after = pads_of(n, kernel, stride, dilation, rank)
    if before != after:
        x, before = widen(x, before, after, 0.0), [0] * rank
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    return function(x, w, b, tuple(stride), tuple(before), tuple(dilation), n.get("group", 1))


@handles("ConvTranspose")
def conv_transpose(n, x, w, b=None):
    rank = n.rank() - 2
    stride, dilation = n.get("strides", [1] * rank), n.get("dilations", [1] * rank)
    before, after = pads_of(n, n.shape(1)[2:], stride, dilation, rank)
    if before != after or "output_shape" in n.attributes or n.get("auto_pad", "NOTSET") != "NOTSET":
        raise Refused("ConvTranspose with uneven padding")
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]
    return function(x, w, b, tuple(stride), tuple(before), tuple(n.get("output_padding", [0] * rank)),
                    n.get("group", 1), tuple(dilation))


@handles("MaxPool", "AveragePool")
def pool(n, x):
    if len(n.outputs) > 1:
        raise Refused("MaxPool with indices")
    rank = n.rank() - 2
    kernel = n.get("kernel_shape")
    stride, dilation = n.get("strides", [1] * rank), n.get("dilations", [1] * rank)
    before, after = pads_of(n, kernel, stride, dilation, rank)
    is_max, include = n.type == "MaxPool", bool(n.get("count_include_pad", 0))
    if before != after or any(2 * p > k for p, k in zip(before, kernel)):
        if not is_max and not include:
            raise Refused("AveragePool with uneven padding that does not count")
        x, before, include = widen(x, before, after, float("-inf") if is_max else 0.0), [0] * rank, True
    ceil = bool(n.get("ceil_mode", 0))
    if is_max:
        function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[rank]
        return function(x, tuple(kernel), tuple(stride), tuple(before), tuple(dilation), ceil)
    if any(d != 1 for d in dilation):
        raise Refused("AveragePool with dilation")
    function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank]
    return function(x, tuple(kernel), tuple(stride), tuple(before), ceil, include)


@handles("GlobalAveragePool")
def global_average(n, x):
    return torch.mean(x, tuple(range(2, n.rank())), keepdim=True)


@handles("GlobalMaxPool")
def global_max(n, x):
    return torch.amax(x, tuple(range(2, n.rank())), keepdim=True)


# Norms, reductions, recurrence.

@handles("BatchNormalization")
def batch_norm(n, x, scale, bias, mean, variance):
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, n.get("epsilon", 1e-5))


@handles("LayerNormalization")
def layer_norm(n, x, scale, bias=None):
    axis = n.get("axis", -1) % n.rank()
    return F.layer_norm(x, n.shape()[axis:], scale, bias, n.get("epsilon", 1e-5))


@handles("InstanceNormalization")
def instance_norm(n, x, scale, bias):
    return F.instance_norm(x, weight=scale, bias=bias, eps=n.get("epsilon", 1e-5))


@handles("Softmax", "LogSoftmax")
def softmax(n, x):
    function = F.softmax if n.type == "Softmax" else F.log_softmax
    return function(x, n.get("axis", -1))


REDUCTIONS = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax, "ReduceMin": torch.amin}


@handles(*REDUCTIONS)
def reduce(n, x, *unused):
    axes = n.ints(1) if n.has(1) else n.get("axes")
    if not axes:
        if n.get("noop_with_empty_axes", 0):
            return x
        axes = list(range(n.rank()))
    return REDUCTIONS[n.type](x, tuple(axes), keepdim=bool(n.get("keepdims", 1)))


@handles("ArgMax", "ArgMin")
def arg_extremum(n, x):
    function = torch.argmax if n.type == "ArgMax" else torch.argmin
    return function(x, n.get("axis", 0), bool(n.get("keepdims", 1)))


@handles("LSTM")
def lstm(n, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
    direction = n.get("direction", "forward")
    if direction == "reverse" or lengths is not None or peepholes is not None or n.get("layout", 0) or any(
            name in n.attributes for name in ("activations", "clip", "input_forget")):
        raise Refused("LSTM other than the plain one")
    hidden, directions = n.get("hidden_size"), n.shape(1)[0]
    def gates(tensor):  # i, o, f, c of ONNX as i, f, c, o
        i, o, f, g = tensor.split(hidden)
        return torch.cat([i, f, g, o])
    weights = []
    for d in range(directions):
        weights += [gates(n.constant(1)[d]), gates(n.constant(2)[d])]
        if b is not None:
            weights += [gates(part) for part in n.constant(3)[d].split(4 * hidden)]
    start = torch.zeros(directions, n.shape()[1], hidden)
    state = [s if s is not None else n.hold(start) for s in (h, c)]
    result = torch.lstm(x, state, [n.hold(t) for t in weights], b is not None, 1, 0.0, False, directions == 2, False)
    steps, batch = n.shape()[:2]
    return result[0].reshape(steps, batch, directions, hidden).permute(0, 2, 1, 3), result[1], result[2]


# Shapes and places.

@handles("Constant")
def constant(n):
    for name in ("value_float", "value_int"):
        if name in n.attributes:
            return torch.tensor(n.attributes[name])
    for name in ("value_floats", "value_ints"):
        if name in n.attributes:
            return torch.tensor(list(n.attributes[name]))
    return to_torch(n.attributes["value"])


@handles("ConstantOfShape")
def constant_of_shape(n, shape):
    value = to_torch(n.attributes["value"]) if "value" in n.attributes else torch.zeros(1)
    return n.hold(torch.full(n.ints(0), value.item(), dtype=value.dtype))


@handles("Shape")
def shape_of(n, x):
    return torch.tensor(n.shape()[n.get("start", 0):n.get("end", None)], dtype=torch.int64)


@handles("Reshape")
def reshape(n, x, shape):
    sizes = n.ints(1)
    if not n.get("allowzero", 0):
        sizes = [n.shape()[i] if s == 0 else s for i, s in enumerate(sizes)]
    return torch.reshape(x, tuple(sizes))


@handles("Flatten")
def flatten(n, x):
    axis = n.get("axis", 1)
    first = 1
    for size in n.shape()[:axis]:
        first *= size
    return torch.reshape(x, (first, -1))


@handles("Transpose")
def transpose(n, x):
    return x.permute(tuple(n.get("perm", list(reversed(range(n.rank()))))))


@handles("Unsqueeze")
def unsqueeze(n, x, *unused):
    axes = n.ints(1) if n.has(1) else n.get("axes")
    rank = n.rank() + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = torch.unsqueeze(x, axis)
    return x


@handles("Squeeze")
def squeeze(n, x, *unused):
    axes = n.ints(1) if n.has(1) else n.get("axes")
    if axes is None:
        axes = [i for i, size in enumerate(n.shape()) if size == 1]
    for axis in sorted((a % n.rank() for a in axes), reverse=True):
        x = torch.squeeze(x, axis)
    return x


@handles("Concat")
def concat(n, *inputs):
    return torch.cat(inputs, n.get("axis"))


@handles("Split")
def split(n, x, *unused):
    axis = n.get("axis", 0)
    sizes = n.ints(1) if n.has(1) else n.get("split")
    if sizes is None:
        whole, parts = n.shape()[axis], len(n.outputs)
        each = -(-whole // parts)
        sizes = [min(each, whole - i * each) for i in range(parts)]
    pieces = torch.split(x, list(sizes), axis)
    return [pieces[i] for i in range(len(sizes))]


@handles("Slice")
def slice_of(n, x, *unused):
    starts = n.ints(1) if n.has(1) else n.get("starts")
    ends = n.ints(2) if n.has(2) else n.get("ends")
    axes = n.ints(3) if n.has(3) else n.get("axes", list(range(len(starts))))
    steps = n.ints(4, [1] * len(starts))
    index = [slice(None)] * n.rank()
    for start, end, axis, step in zip(starts, ends, axes, steps):
        axis %= n.rank()
        if step < 0:
            if step != -1 or start not in (-1, n.shape()[axis] - 1) or end > -n.shape()[axis]:
                raise Refused("Slice backwards over a part")
            x = torch.flip(x, (axis,))
        else:
            index[axis] = slice(start, min(end, n.shape()[axis]), step)
    return x[tuple(index)]


@handles("Gather")
def gather(n, x, indices):
    axis = n.get("axis", 0) % n.rank()
    if n.is_constant(1):
        wanted = n.constant(1)
        wanted = torch.where(wanted < 0, wanted + n.shape()[axis], wanted)
        if wanted.dim() == 0:
            return torch.select(x, axis, wanted.item())
        indices = n.hold(wanted)
    if axis == 0 and n.rank() == 2:
        return F.embedding(indices, x)
    picked = torch.index_select(x, axis, torch.reshape(indices, (-1,)))
    return torch.reshape(picked, n.shape()[:axis] + n.shape(1) + n.shape()[axis + 1:])


@handles("Expand")
def expand(n, x, shape):
    wanted = n.ints(1)
    own = [1] * (len(wanted) - n.rank()) + list(n.shape())
    wanted = [1] * (len(own) - len(wanted)) + wanted
    return x.expand(tuple(max(a, b) for a, b in zip(own, wanted)))


@handles("Tile")
def tile(n, x, repeats):
    return torch.tile(x, tuple(n.ints(1)))


@handles("Range")
def range_of(n, start, limit, delta):
    return n.hold(torch.arange(n.constant(0).item(), n.constant(1).item(), n.constant(2).item()))


@handles("Pad")
def pad(n, x, *unused):
    pads = n.ints(1) if n.has(1) else n.get("pads")
    if n.get("mode", "constant") != "constant" or n.has(3):
        raise Refused("Pad other than with a constant on all axes")
    value = n.constant(2).item() if n.has(2) else n.get("value", 0.0)
    return widen(x, pads[:n.rank()], pads[n.rank():], value)


@handles("DepthToSpace")
def depth_to_space(n, x):
    if n.get("mode", "DCR") != "CRD":
        raise Refused("DepthToSpace DCR")
    return F.pixel_shuffle(x, n.get("blocksize"))
