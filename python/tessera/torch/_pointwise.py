"""Conversions of ATen operators that compute element by element, or reduce along dimensions."""
from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
from torch.fx import Node

from ._convert import Converter, Unsupported, dtype_of, operator, shape_of


def common_type(*values: Any) -> torch.dtype:
    """As PyTorch promotes tensors and numbers."""
    examples = [v.meta["val"] if isinstance(v, Node) else v for v in values]
    dtype = examples[0]
    for other in examples[1:]:
        dtype = _promoted(dtype, other)
    return dtype if isinstance(dtype, torch.dtype) else _type_of_example(dtype)


def _type_of_example(value: Any) -> torch.dtype:
    if isinstance(value, torch.Tensor):
        return value.dtype
    return torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) else torch.float32


def _promoted(a: Any, b: Any) -> torch.dtype:
    def plain(x: Any) -> Any:  # promotion asks for types and ranks only
        return torch.empty([0] * x.dim(), dtype=x.dtype) if isinstance(x, torch.Tensor) else x

    return torch.result_type(plain(a), plain(b))


def _binary(op: str, names: Sequence[str]) -> None:
    @operator(*names)
    def convert(c: Converter, node: Node, a: Any, b: Any) -> str:
        dtype = dtype_of(node)
        return c.emit(op, c.as_type(a, dtype), c.as_type(b, dtype))


def _comparison(op: str, name: str) -> None:
    @operator(name)
    def convert(c: Converter, node: Node, a: Any, b: Any) -> str:
        dtype = common_type(a, b)
        return c.emit(op, c.as_type(a, dtype), c.as_type(b, dtype))


def _logical(op: str, on_integers: str, names: Sequence[str]) -> None:
    @operator(*names)
    def convert(c: Converter, node: Node, a: Any, b: Any) -> str:
        dtype = dtype_of(node)
        return c.emit(op if dtype == torch.bool else on_integers, c.as_type(a, dtype), c.as_type(b, dtype))


def _unary(op: str, names: Sequence[str]) -> None:
    @operator(*names)
    def convert(c: Converter, node: Node, x: Node) -> str:
        return c.emit(op, c.as_type(x, dtype_of(node)))


for _op, _names in (("Mul", ["mul"]), ("Max", ["maximum"]), ("Min", ["minimum"])):
    _binary(_op, _names)
for _op, _name in (("Equal", "eq"), ("Less", "lt"), ("LessOrEqual", "le"), ("Greater", "gt"), ("GreaterOrEqual", "ge")):
    _comparison(_op, _name)
for _op, _integers, _names in (("And", "BitwiseAnd", ["logical_and", "bitwise_and", "__and__"]),
                               ("Or", "BitwiseOr", ["logical_or", "bitwise_or", "__or__"]),
                               ("Xor", "BitwiseXor", ["logical_xor", "bitwise_xor", "__xor__"])):
    _logical(_op, _integers, _names)
for _op, _names in (
        ("Abs", ["abs"]), ("Neg", ["neg"]), ("Exp", ["exp"]), ("Log", ["log"]), ("Sqrt", ["sqrt"]), ("Sin", ["sin"]),
        ("Cos", ["cos"]), ("Tan", ["tan"]), ("Tanh", ["tanh"]), ("Sigmoid", ["sigmoid"]), ("Relu", ["relu"]),
        ("Erf", ["erf"]), ("Floor", ["floor"]), ("Ceil", ["ceil"]), ("Round", ["round"]), ("Sign", ["sign"]),
        ("Reciprocal", ["reciprocal"]), ("Asin", ["asin"]), ("Acos", ["acos"]), ("Atan", ["atan"]), ("Sinh", ["sinh"]),
        ("Cosh", ["cosh"]), ("Asinh", ["asinh"]), ("Acosh", ["acosh"]), ("Atanh", ["atanh"]), ("Mish", ["mish"]),
        ("HardSwish", ["hardswish"]), ("Not", ["logical_not"])):
    _unary(_op, _names)


@operator("logical_not")
def _logical_not(c: Converter, node: Node, x: Node) -> str:
    return c.emit("Not", c.as_type(x, torch.bool))


@operator("bitwise_not")
def _bitwise_not(c: Converter, node: Node, x: Node) -> str:
    return c.emit("Not" if dtype_of(node) == torch.bool else "BitwiseNot", x)


@operator("ne")
def _ne(c: Converter, node: Node, a: Any, b: Any) -> str:
    dtype = common_type(a, b)
    return c.emit("Not", c.emit("Equal", c.as_type(a, dtype), c.as_type(b, dtype)))


@operator("add")
def _add(c: Converter, node: Node, a: Any, b: Any, alpha: float = 1) -> str:
    dtype = dtype_of(node)
    if dtype == torch.bool:
        return c.emit("Or", a, c.as_type(b, dtype))
    return c.emit("Add", c.as_type(a, dtype), _scaled(c, c.as_type(b, dtype), alpha, dtype))


@operator("sub")
def _sub(c: Converter, node: Node, a: Any, b: Any, alpha: float = 1) -> str:
    dtype = dtype_of(node)
    return c.emit("Sub", c.as_type(a, dtype), _scaled(c, c.as_type(b, dtype), alpha, dtype))


@operator("rsub")
def _rsub(c: Converter, node: Node, a: Any, b: Any, alpha: float = 1) -> str:
    dtype = dtype_of(node)
    return c.emit("Sub", c.as_type(b, dtype), _scaled(c, c.as_type(a, dtype), alpha, dtype))


def _scaled(c: Converter, name: str, factor: float, dtype: torch.dtype) -> str:
    return name if factor == 1 else c.emit("Mul", name, c.constant(factor, dtype))


@operator("div")
def _div(c: Converter, node: Node, a: Any, b: Any, rounding_mode: Optional[str] = None) -> str:
    dtype = dtype_of(node)
    if rounding_mode is None:
        return c.emit("Div", c.as_type(a, dtype), c.as_type(b, dtype))
    a, b = c.as_type(a, dtype), c.as_type(b, dtype)
    quotient = c.emit("Div", a, b)
    if not dtype.is_floating_point:
        # a - (a mod b) divides without a rest.
        return c.emit("Div", c.emit("Sub", a, c.emit("Mod", a, b)), b) if rounding_mode == "floor" else quotient
    if rounding_mode != "floor":
        return _truncated(c, quotient, dtype)
    # By the rest: 1 // 0.1 is 9, though 1 / 0.1 rounds to 10.
    rest, turned = _rest(c, a, b, dtype)
    whole = c.emit("Sub", c.emit("Div", c.emit("Sub", a, rest), b), c.cast(turned, dtype))
    return c.emit("Where", c.emit("Equal", b, c.constant(0, dtype)), quotient, c.emit("Round", whole))


def _rest(c: Converter, a: str, b: str, dtype: torch.dtype) -> tuple[str, str]:
    """What is left of a float with the sign of a, and whether b has the other sign."""
    rest = c.emit("Mod", a, b, fmod=1)
    return rest, c.emit("Less", c.emit("Mul", c.emit("Sign", rest), c.emit("Sign", b)), c.constant(0, dtype))


@operator("floor_divide")
def _floor_divide(c: Converter, node: Node, a: Any, b: Any) -> str:
    return _div(c, node, a, b, "floor")


def _truncated(c: Converter, x: Any, dtype: torch.dtype) -> str:
    return c.emit("Mul", c.emit("Sign", x), c.emit("Floor", c.emit("Abs", x)))


@operator("trunc", "fix")
def _trunc(c: Converter, node: Node, x: Node) -> str:
    return _truncated(c, x, dtype_of(node))


@operator("remainder")
def _remainder(c: Converter, node: Node, a: Any, b: Any) -> str:
    dtype = dtype_of(node)
    a, b = c.as_type(a, dtype), c.as_type(b, dtype)
    if not dtype.is_floating_point:
        return c.emit("Mod", a, b)
    rest, turned = _rest(c, a, b, dtype)
    return c.emit("Where", turned, c.emit("Add", rest, b), rest)


@operator("fmod")
def _fmod(c: Converter, node: Node, a: Any, b: Any) -> str:
    dtype = dtype_of(node)
    return c.emit("Mod", c.as_type(a, dtype), c.as_type(b, dtype), fmod=1)


@operator("pow")
def _pow(c: Converter, node: Node, a: Any, b: Any) -> str:
    dtype = dtype_of(node)
    if b == 2:
        x = c.as_type(a, dtype)
        return c.emit("Mul", x, x)
    return c.emit("Pow", c.as_type(a, dtype), c.as_type(b, dtype))


@operator("rsqrt")
def _rsqrt(c: Converter, node: Node, x: Node) -> str:
    return c.emit("Reciprocal", c.emit("Sqrt", c.as_type(x, dtype_of(node))))


@operator("square")
def _square(c: Converter, node: Node, x: Node) -> str:
    return c.emit("Mul", x, x)


@operator("log1p")
def _log1p(c: Converter, node: Node, x: Node) -> str:
    dtype = dtype_of(node)
    return c.emit("Log", c.emit("Add", c.as_type(x, dtype), c.constant(1, dtype)))


@operator("expm1")
def _expm1(c: Converter, node: Node, x: Node) -> str:
    dtype = dtype_of(node)
    return c.emit("Sub", c.emit("Exp", c.as_type(x, dtype)), c.constant(1, dtype))


@operator("exp2")
def _exp2(c: Converter, node: Node, x: Node) -> str:
    dtype = dtype_of(node)
    return c.emit("Exp", c.emit("Mul", c.as_type(x, dtype), c.constant(math.log(2), dtype)))


@operator("log2", "log10")
def _other_log(c: Converter, node: Node, x: Node) -> str:
    dtype = dtype_of(node)
    base = 2 if "log2" in str(node.target) else 10
    return c.emit("Mul", c.emit("Log", c.as_type(x, dtype)), c.constant(1 / math.log(base), dtype))


@operator("isnan")
def _isnan(c: Converter, node: Node, x: Node) -> str:
    return c.emit("IsNaN", x)


@operator("isinf")
def _isinf(c: Converter, node: Node, x: Node) -> str:
    return c.emit("IsInf", x)


@operator("gelu")
def _gelu(c: Converter, node: Node, x: Node, approximate: str = "none") -> str:
    return c.emit("Gelu", x, approximate=approximate)


@operator("silu")
def _silu(c: Converter, node: Node, x: Node) -> str:
    return c.emit("Mul", x, c.emit("Sigmoid", x))


@operator("leaky_relu")
def _leaky_relu(c: Converter, node: Node, x: Node, slope: float = 0.01) -> str:
    return c.emit("LeakyRelu", x, alpha=float(slope))


@operator("elu")
def _elu(c: Converter, node: Node, x: Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> str:
    if input_scale != 1:
        raise Unsupported("an input that is scaled")
    return _scaled(c, c.emit("Elu", x, alpha=float(alpha)), scale, dtype_of(node))


@operator("hardsigmoid")
def _hardsigmoid(c: Converter, node: Node, x: Node) -> str:
    return c.emit("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@operator("softplus")
def _softplus(c: Converter, node: Node, x: Node, beta: float = 1, threshold: float = 20) -> str:
    dtype = dtype_of(node)
    return _scaled(c, c.emit("Softplus", _scaled(c, c.name(x), beta, dtype)), 1 / beta, dtype)


@operator("prelu", "_prelu_kernel")
def _prelu(c: Converter, node: Node, x: Node, slope: Node) -> str:
    rank, count = len(shape_of(x)), math.prod(shape_of(slope))
    shape = [1] * rank if count == 1 else [count if d == 1 else 1 for d in range(rank)]
    return c.emit("PRelu", x, c.reshape(slope, shape))


@operator("clamp", "hardtanh")
def _clamp(c: Converter, node: Node, x: Node, least: Any = None, most: Any = None, **given: Any) -> str:
    dtype = dtype_of(node)
    if "hardtanh" in str(node.target):
        least, most = given.get("min_val", -1 if least is None else least), given.get("max_val", 1 if most is None else most)
    least, most = given.get("min", least), given.get("max", most)
    result = c.as_type(x, dtype)
    if least is not None:
        result = c.emit("Max", result, c.as_type(least, dtype))
    return result if most is None else c.emit("Min", result, c.as_type(most, dtype))


@operator("clamp_min")
def _clamp_min(c: Converter, node: Node, x: Node, least: Any) -> str:
    return _clamp(c, node, x, least)


@operator("clamp_max")
def _clamp_max(c: Converter, node: Node, x: Node, most: Any) -> str:
    return _clamp(c, node, x, None, most)


@operator("where")
def _where(c: Converter, node: Node, condition: Node, a: Any, b: Any) -> str:
    dtype = dtype_of(node)
    return c.emit("Where", c.as_type(condition, torch.bool), c.as_type(a, dtype), c.as_type(b, dtype))


@operator("masked_fill")
def _masked_fill(c: Converter, node: Node, x: Node, mask: Node, value: Any) -> str:
    return _where(c, node, mask, value, x)


@operator("_to_copy", "to", "_assert_tensor_metadata")
def _to_copy(c: Converter, node: Node, x: Node, *args: Any, **kwargs: Any) -> str:
    return c.as_type(x, dtype_of(node)) if isinstance(node.meta.get("val"), torch.Tensor) else ""


@operator("_softmax", "softmax", "_log_softmax", "log_softmax", "_safe_softmax")
def _softmax(c: Converter, node: Node, x: Node, dim: int, *args: Any, **kwargs: Any) -> str:
    kind = "LogSoftmax" if "log_softmax" in str(node.target) else "Softmax"
    result = c.emit(kind, c.as_type(x, dtype_of(node)), axis=int(dim))
    if "_safe_softmax" not in str(node.target):
        return result
    # A row in which nothing may be seen gives zeros.
    never = c.emit("Equal", c.emit("ReduceMax", x, c.constant([int(dim)]), keepdims=1), c.constant(-math.inf, dtype_of(x)))
    return c.emit("Where", never, c.constant(0, dtype_of(node)), result)


# ---- reductions ----


def axes_of(x: Node, dims: Any) -> list[int]:
    rank = len(shape_of(x))
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(rank))
    return [int(d) % max(rank, 1) for d in (dims if isinstance(dims, (list, tuple)) else [dims])]


def reduce(c: Converter, op: str, value: str, x: Node, dims: Any, keep: bool) -> str:
    axes = axes_of(x, dims)
    if not shape_of(x):
        return value
    return c.emit(op, value, c.constant(axes), keepdims=int(keep))  # type: ignore[no-any-return]


def _reduction(op: str, *names: str) -> None:
    @operator(*names)
    def convert(c: Converter, node: Node, x: Node, dims: Any = None, keep: bool = False, *, keepdim: bool = False,
                dim: Any = None, dtype: Any = None) -> str:
        return reduce(c, op, c.as_type(x, dtype_of(node)), x, dims if dims is not None else dim, keep or keepdim)


for _op, _names in (("ReduceMean", ["mean"]), ("ReduceSum", ["sum"]), ("ReduceMax", ["amax"]), ("ReduceMin", ["amin"]),
                    ("ReduceProd", ["prod"]), ("ReduceLogSumExp", ["logsumexp"])):
    _reduction(_op, *_names)


@operator("max", "min")
def _max(c: Converter, node: Node, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    upper = "max" in str(node.target)
    op = "ReduceMax" if upper else "ReduceMin"
    if isinstance(dim, Node):
        dtype = dtype_of(node)
        return c.emit("Max" if upper else "Min", c.as_type(x, dtype), c.as_type(dim, dtype))
    if dim is None:
        return reduce(c, op, c.name(x), x, None, False)
    at = c.emit("ArgMax" if upper else "ArgMin", x, axis=int(dim), keepdims=int(keepdim))
    return [reduce(c, op, c.name(x), x, dim, keepdim), at]


@operator("argmax", "argmin")
def _argmax(c: Converter, node: Node, x: Any, dim: Optional[int] = None, keepdim: bool = False) -> str:
    op = "ArgMax" if "argmax" in str(node.target) else "ArgMin"
    if dim is not None:
        return c.emit(op, x, axis=int(dim), keepdims=int(keepdim))
    return c.reshape(c.emit(op, c.reshape(x, [-1]), axis=0, keepdims=0), shape_of(node))


@operator("any", "all")
def _any(c: Converter, node: Node, x: Node, dims: Any = None, keepdim: bool = False) -> str:
    op = "ReduceMax" if "any" in str(node.target) else "ReduceMin"
    truth = c.cast(c.as_type(x, torch.bool), torch.int32)
    return c.cast(reduce(c, op, truth, x, dims, keepdim), torch.bool)


def _spread(dims: Any, unbiased: Any, dim: Any, correction: Any) -> tuple[Any, float]:
    """Dimensions and correction of var(dims, unbiased), var(unbiased) and var(dim=, correction=)."""
    if isinstance(dims, bool):
        dims, unbiased = None, dims
    taken = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    return (dims if dims is not None else dim), taken


def _variance(c: Converter, x: Node, dims: Any, correction: float, keep: bool) -> tuple[str, str]:
    axes = axes_of(x, dims)
    count = math.prod(shape_of(x)[a] for a in axes)
    mean = c.emit("ReduceMean", x, c.constant(axes), keepdims=1)
    off = c.emit("Sub", x, mean)
    total = c.emit("ReduceSum", c.emit("Mul", off, off), c.constant(axes), keepdims=int(keep))
    return c.emit("Div", total, c.constant(max(count - correction, 0), dtype_of(x))), mean


@operator("var", "std")
def _var(c: Converter, node: Node, x: Node, dims: Any = None, unbiased: Any = None, keep: bool = False, *,
         dim: Any = None, correction: Any = None, keepdim: bool = False) -> str:
    variance, _ = _variance(c, x, *_spread(dims, unbiased, dim, correction), keep or keepdim)
    return c.emit("Sqrt", variance) if ".std." in str(node.target) else variance


@operator("var_mean")
def _var_mean(c: Converter, node: Node, x: Node, dims: Any = None, unbiased: Any = None, keep: bool = False, *,
              dim: Any = None, correction: Any = None, keepdim: bool = False) -> list[str]:
    dims, taken = _spread(dims, unbiased, dim, correction)
    keep = keep or keepdim
    variance, mean = _variance(c, x, dims, taken, keep)
    return [variance, mean if keep else c.emit("ReduceMean", x, c.constant(axes_of(x, dims)), keepdims=0)]


@operator("linalg_vector_norm", "norm")
def _norm(c: Converter, node: Node, x: Node, order: Any = 2, dims: Any = None, keep: bool = False, *,
          keepdim: bool = False, dtype: Any = None) -> str:
    value = c.as_type(x, dtype_of(node))
    ops = {1: "ReduceL1", 2: "ReduceL2", None: "ReduceL2"}
    if order in ops:
        return reduce(c, ops[order], value, x, dims, keep or keepdim)
    if order in (math.inf, -math.inf):
        return reduce(c, "ReduceMax" if order > 0 else "ReduceMin", c.emit("Abs", value), x, dims, keep or keepdim)
    raise Unsupported(f"a norm of order {order}")


@operator("cumsum")
def _cumsum(c: Converter, node: Node, x: Node, dim: int, *, dtype: Any = None) -> str:
    value = c.as_type(x, dtype_of(node))
    return c.emit("CumSum", value, c.constant(int(dim))) if shape_of(x) else value


@operator("full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "scalar_tensor", "new_zeros", "new_ones",
          "new_full", "empty", "empty_like")
def _full(c: Converter, node: Node, *args: Any, **kwargs: Any) -> str:
    name = str(node.target)
    if ".full" in name or ".new_full" in name:
        value = args[1] if ".new_full" not in name else args[2]
    else:
        value = args[0] if ".scalar_tensor" in name else int("ones" in name)
    if isinstance(value, Node):
        raise Unsupported("a value that is computed")
    number = c.constant(value, dtype_of(node))
    return c.emit("Expand", number, c.constant(shape_of(node))) if shape_of(node) else number


@operator("arange")
def _arange(c: Converter, node: Node, *args: Any, **kwargs: Any) -> str:
    if any(isinstance(a, Node) for a in args):
        raise Unsupported("a bound that is computed")
    return c.tensor(torch.arange(*args, dtype=dtype_of(node)))


@operator("eye")
def _eye(c: Converter, node: Node, *args: Any, **kwargs: Any) -> str:
    return c.tensor(torch.eye(*shape_of(node), dtype=dtype_of(node)))

