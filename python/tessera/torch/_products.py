"""Conversions of ATen operators that multiply matrices, convolve, pool, normalise and resize."""
from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
from torch.fx import Node

from ._convert import Converter, Unsupported, dtype_of, operator, shape_of


@operator("mm", "bmm", "matmul", "mv", "dot")
def _matmul(c: Converter, node: Node, a: Node, b: Node) -> str:
    return c.emit("MatMul", a, b)


@operator("addmm", "baddbmm", "addmv")
def _addmm(c: Converter, node: Node, bias: Node, a: Node, b: Node, *, beta: float = 1, alpha: float = 1) -> str:
    dtype = dtype_of(node)
    product = c.emit("MatMul", a, b)
    if alpha != 1:
        product = c.emit("Mul", product, c.constant(alpha, dtype))
    if beta == 0:
        return product  # type: ignore[no-any-return]
    added = c.name(bias) if beta == 1 else c.emit("Mul", bias, c.constant(beta, dtype))
    return c.emit("Add", product, added)


@operator("linear")
def _linear(c: Converter, node: Node, x: Node, weight: Node, bias: Optional[Node] = None) -> str:
    turned = c.emit("Transpose", weight, perm=[1, 0]) if len(shape_of(weight)) == 2 else c.name(weight)
    product = c.emit("MatMul", x, turned)
    return product if bias is None else c.emit("Add", product, bias)


def _each(value: Any, count: int) -> list[int]:
    values = [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
    return values * count if len(values) == 1 else values


@operator("convolution", "_convolution")
def _convolution(c: Converter, node: Node, x: Node, weight: Node, bias: Optional[Node], stride: Any, padding: Any,
                 dilation: Any, transposed: bool, output_padding: Any, groups: int, *args: Any) -> str:
    rank = len(shape_of(weight)) - 2
    pads = _each(padding, rank) * 2
    how: dict[str, Any] = {"kernel_shape": shape_of(weight)[2:], "strides": _each(stride, rank), "pads": pads,
                           "dilations": _each(dilation, rank), "group": int(groups)}
    if transposed:
        how["output_padding"] = _each(output_padding, rank)
    value = c.name(x)
    batched = len(shape_of(x)) == rank + 2
    if not batched:
        value = c.reshape(x, [1, *shape_of(x)])
    inputs = [value, c.name(weight)] + ([c.name(bias)] if bias is not None else [])
    made = c.emit("ConvTranspose" if transposed else "Conv", *inputs, **how)
    return made if batched else c.reshape(made, shape_of(node))


@operator("conv1d", "conv2d", "conv3d")
def _conv(c: Converter, node: Node, x: Node, weight: Node, bias: Optional[Node] = None, stride: Any = 1,
          padding: Any = 0, dilation: Any = 1, groups: int = 1) -> str:
    rank = len(shape_of(weight)) - 2
    if isinstance(padding, str):
        totals = [d * (k - 1) for d, k in zip(_each(dilation, rank), shape_of(weight)[2:])]
        if padding == "same" and any(t % 2 for t in totals):
            raise Unsupported("padding='same' by an odd number")
        padding = [t // 2 for t in totals] if padding == "same" else 0
    return _convolution(c, node, x, weight, bias, stride, padding, dilation, False, 0, groups)


@operator("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(c: Converter, node: Node, x: Node, weight: Node, bias: Optional[Node] = None, stride: Any = 1,
                    padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1) -> str:
    return _convolution(c, node, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


# ---- windows ----


def _in_batch(c: Converter, x: Node, rank: int) -> tuple[str, bool]:
    if len(shape_of(x)) == rank + 2:
        return c.name(x), True
    return c.reshape(x, [1, *shape_of(x)]), False


def _max_pool(c: Converter, node: Node, rank: int, x: Node, kernel: Any, stride: Any = (), padding: Any = 0,
              dilation: Any = 1, ceil_mode: bool = False) -> str:
    value, batched = _in_batch(c, x, rank)
    made = c.emit("MaxPool", value, kernel_shape=_each(kernel, rank), strides=_each(stride or kernel, rank),
                  pads=_each(padding, rank) * 2, dilations=_each(dilation, rank), ceil_mode=int(ceil_mode))
    return made if batched else c.reshape(made, _first_shape(node))


def _first_shape(node: Node) -> list[int]:
    value = node.meta["val"]
    return [int(s) for s in (value[0] if isinstance(value, (tuple, list)) else value).shape]


@operator("max_pool1d", "max_pool2d", "max_pool3d")
def _plain_max_pool(c: Converter, node: Node, x: Node, *args: Any) -> str:
    return _max_pool(c, node, int(str(node.target).split("pool")[1][0]), x, *args)


@operator("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool_with_indices(c: Converter, node: Node, x: Node, *args: Any) -> list[str]:
    return [_max_pool(c, node, int(str(node.target).split("pool")[1][0]), x, *args)]


@operator("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(c: Converter, node: Node, x: Node, kernel: Any, stride: Any = (), padding: Any = 0,
              ceil_mode: bool = False, include_pad: bool = True, divisor: Optional[int] = None) -> str:
    rank = int(str(node.target).split("pool")[1][0])
    value, batched = _in_batch(c, x, rank)
    if divisor and ceil_mode:
        raise Unsupported("a divisor with windows that are cut off")
    made = c.emit("AveragePool", value, kernel_shape=_each(kernel, rank), strides=_each(stride or kernel, rank),
                  pads=_each(padding, rank) * 2, ceil_mode=int(ceil_mode), count_include_pad=int(include_pad or bool(divisor)))
    if divisor:  # of sums over whole windows, padding included
        factor = math.prod(_each(kernel, rank)) / divisor
        made = c.emit("Mul", made, c.constant(factor, dtype_of(node)))
    return made if batched else c.reshape(made, shape_of(node))


def _shares(size: int, parts: int) -> list[tuple[int, int]]:
    """Where the windows of adaptive pooling begin and end."""
    return [(i * size // parts, -(-(i + 1) * size // parts)) for i in range(parts)]


def _adaptive(c: Converter, node: Node, x: Node, sizes: Sequence[int], op: str, reduction: str) -> str:
    shape = shape_of(x)
    rank = len(sizes)
    given = shape[len(shape) - rank:]
    wanted = [given[i] if sizes[i] is None else int(sizes[i]) for i in range(rank)]
    axes = list(range(len(shape) - rank, len(shape)))
    if wanted == [1] * rank:
        return c.emit(reduction, x, c.constant(axes), keepdims=1)  # type: ignore[no-any-return]
    if all(g % w == 0 for g, w in zip(given, wanted)):
        kernel = [g // w for g, w in zip(given, wanted)]
        value, batched = _in_batch(c, x, rank)
        made = c.emit(op, value, kernel_shape=kernel, strides=kernel)
        return made if batched else c.reshape(made, shape_of(node))
    # Windows of several sizes: one dimension after the other, window by window.
    value: Any = x
    for axis, g, w in zip(axes, given, wanted):
        rows = [c.emit(reduction, c.slice(value, axis, a, b), c.constant([axis]), keepdims=1) for a, b in _shares(g, w)]
        value = c.emit("Concat", *rows, axis=axis) if len(rows) > 1 else rows[0]
    return value  # type: ignore[no-any-return]


@operator("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
          "adaptive_avg_pool3d")
def _adaptive_avg_pool(c: Converter, node: Node, x: Node, sizes: Sequence[int]) -> str:
    return _adaptive(c, node, x, sizes, "AveragePool", "ReduceMean")


@operator("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(c: Converter, node: Node, x: Node, sizes: Sequence[int]) -> list[str]:
    return [_adaptive(c, node, x, sizes, "MaxPool", "ReduceMax")]


# ---- normalisation ----


@operator("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm", "batch_norm")
def _batch_norm(c: Converter, node: Node, x: Node, weight: Optional[Node], bias: Optional[Node], mean: Any, var: Any,
                *args: Any) -> Any:
    if isinstance(args[0], bool):
        if args[0]:
            raise Unsupported("batch norm in training")
        args = args[1:]
    channels, dtype, eps = shape_of(x)[1], dtype_of(mean), args[1]
    scale = c.name(weight) if weight is not None else c.tensor(torch.ones(channels, dtype=dtype))
    shift = c.name(bias) if bias is not None else c.tensor(torch.zeros(channels, dtype=dtype))
    made = c.emit("BatchNormalization", x, scale, shift, mean, var, epsilon=float(eps))
    return made if isinstance(node.meta["val"], torch.Tensor) else [made]


@operator("_native_batch_norm_legit")
def _instance_norm(c: Converter, node: Node, x: Node, weight: Optional[Node], bias: Optional[Node], *args: Any) -> list[str]:
    """By the statistics of a batch of one, as instance normalisation is written."""
    if not isinstance(args[0], bool) or shape_of(x)[0] != 1:
        raise Unsupported("batch norm in training")
    channels, dtype = shape_of(x)[1], dtype_of(x)
    scale = c.name(weight) if weight is not None else c.tensor(torch.ones(channels, dtype=dtype))
    shift = c.name(bias) if bias is not None else c.tensor(torch.zeros(channels, dtype=dtype))
    return [c.emit("InstanceNormalization", x, scale, shift, epsilon=float(args[2]))]


@operator("native_layer_norm", "layer_norm")
def _layer_norm(c: Converter, node: Node, x: Node, shape: Sequence[int], weight: Optional[Node] = None,
                bias: Optional[Node] = None, eps: float = 1e-5, *args: Any) -> Any:
    scale = c.name(weight) if weight is not None else c.tensor(torch.ones([int(s) for s in shape], dtype=dtype_of(x)))
    made = c.emit("LayerNormalization", x, scale, *([bias] if bias is not None else []), axis=-len(shape),
                  epsilon=float(eps))
    return made if isinstance(node.meta["val"], torch.Tensor) else [made]


@operator("native_group_norm")
def _native_group_norm(c: Converter, node: Node, x: Node, weight: Optional[Node], bias: Optional[Node], n: int,
                       channels: int, rest: int, groups: int, eps: float) -> list[str]:
    return [_group_norm(c, node, x, groups, weight, bias, eps)]


@operator("group_norm")
def _group_norm(c: Converter, node: Node, x: Node, groups: int, weight: Optional[Node] = None,
                bias: Optional[Node] = None, eps: float = 1e-5, *args: Any) -> str:
    shape, dtype = shape_of(x), dtype_of(x)
    ones, zeros = torch.ones(groups, dtype=dtype), torch.zeros(groups, dtype=dtype)
    value = c.emit("InstanceNormalization", c.reshape(x, [shape[0], groups, -1]), c.tensor(ones), c.tensor(zeros),
                   epsilon=float(eps))
    value = c.reshape(value, shape)
    column = [shape[1]] + [1] * (len(shape) - 2)
    if weight is not None:
        value = c.emit("Mul", value, c.reshape(weight, column))
    return value if bias is None else c.emit("Add", value, c.reshape(bias, column))


# ---- attention ----


def _attention(c: Converter, node: Node, q: Node, k: Node, v: Node, mask: Optional[Node], causal: bool,
               scale: Optional[float], grouped: bool = False) -> str:
    dtype, shape, keys = dtype_of(q), shape_of(q), shape_of(k)
    factor = scale if scale is not None else 1 / math.sqrt(shape[-1])
    if grouped and keys[-3] != shape[-3]:
        k, v = (_repeated_heads(c, t, shape[-3] // keys[-3]) for t in (k, v))  # type: ignore[assignment]
    order = list(range(len(keys)))
    order[-2:] = [order[-1], order[-2]]
    scores = c.emit("MatMul", c.emit("Mul", q, c.constant(factor, dtype)), c.emit("Transpose", k, perm=order))
    hidden = None
    if causal:
        hidden = c.tensor(torch.ones(shape[-2], keys[-2], dtype=torch.bool).tril())
    elif mask is not None and dtype_of(mask) == torch.bool:
        hidden = c.name(mask)
    if hidden is not None:
        scores = c.emit("Where", hidden, scores, c.constant(-math.inf, dtype))
    elif mask is not None:
        scores = c.emit("Add", scores, c.as_type(mask, dtype))
    result = c.emit("MatMul", c.emit("Softmax", scores, axis=-1), v)
    if mask is None or causal:
        return result  # type: ignore[no-any-return]
    # A row that may see nothing is zero, not the quotient of two zeros.
    seen = c.name(mask) if dtype_of(mask) == torch.bool else c.emit("Greater", mask, c.constant(-math.inf, dtype_of(mask)))
    some = c.emit("ReduceMax", c.cast(seen, torch.int32), c.constant([-1]), keepdims=1)
    return c.emit("Where", c.cast(some, torch.bool), result, c.constant(0, dtype))  # type: ignore[no-any-return]


def _repeated_heads(c: Converter, x: Node, times: int) -> str:
    shape = shape_of(x)
    wide = [*shape[:-2], times, *shape[-2:]]
    spread = c.emit("Expand", c.reshape(x, [*shape[:-2], 1, *shape[-2:]]), c.constant(wide))
    return c.reshape(spread, [*shape[:-3], shape[-3] * times, *shape[-2:]])


@operator("scaled_dot_product_attention")
def _sdpa(c: Converter, node: Node, q: Node, k: Node, v: Node, attn_mask: Optional[Node] = None, dropout_p: float = 0,
          is_causal: bool = False, *, scale: Optional[float] = None, enable_gqa: bool = False) -> str:
    if dropout_p:
        raise Unsupported("dropout in training")
    return _attention(c, node, q, k, v, attn_mask, is_causal, scale, enable_gqa)


@operator("_scaled_dot_product_flash_attention_for_cpu")
def _flash(c: Converter, node: Node, q: Node, k: Node, v: Node, dropout_p: float = 0, is_causal: bool = False, *,
           attn_mask: Optional[Node] = None, scale: Optional[float] = None) -> list[str]:
    return [_sdpa(c, node, q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=True)]


@operator("_scaled_dot_product_flash_attention")
def _flash_of_gpu(c: Converter, node: Node, q: Node, k: Node, v: Node, dropout_p: float = 0, is_causal: bool = False,
                  *ignored: Any, scale: Optional[float] = None) -> list[str]:
    return [_sdpa(c, node, q, k, v, None, dropout_p, is_causal, scale=scale, enable_gqa=True)]


@operator("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
def _biased_of_gpu(c: Converter, node: Node, q: Node, k: Node, v: Node, bias: Optional[Node], sums: bool,
                   dropout_p: float = 0, is_causal: bool = False, *ignored: Any, scale: Optional[float] = None) -> list[str]:
    return [_sdpa(c, node, q, k, v, bias, dropout_p, is_causal, scale=scale, enable_gqa=True)]


# ---- resizing ----


@operator("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def _nearest(c: Converter, node: Node, x: Node, sizes: Any, *scales: Any) -> str:
    _expect_scales(node, x, scales)
    return c.emit("Resize", x, None, None, c.constant(shape_of(node)), mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@operator("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
def _linear_resize(c: Converter, node: Node, x: Node, sizes: Any, align: bool = False, *scales: Any) -> str:
    name = str(node.target)
    _expect_scales(node, x, scales)
    extra: dict[str, Any] = {"mode": "cubic", "cubic_coeff_a": -0.75} if "bicubic" in name else {"mode": "linear"}
    return c.emit("Resize", x, None, None, c.constant(shape_of(node)),
                  coordinate_transformation_mode="align_corners" if align else "half_pixel", **extra)


def _expect_scales(node: Node, x: Node, scales: Sequence[Any]) -> None:
    """PyTorch reads by the factors that it is given; ONNX by those of the sizes, which must be the same."""
    factors = [s for item in scales for s in (item if isinstance(item, (list, tuple)) else [item])]
    for factor, size, wanted in zip(factors, shape_of(x)[2:], shape_of(node)[2:]):
        if factor is not None and abs(size * factor - wanted) > 1e-6:
            raise Unsupported("a scale that is not that of the sizes")


@operator("grid_sampler_2d", "grid_sampler")
def _grid_sampler(c: Converter, node: Node, x: Node, grid: Node, mode: int, padding: int, align: bool) -> str:
    return c.emit("GridSample", x, grid, mode=("linear", "nearest", "cubic")[mode],
                  padding_mode=("zeros", "border", "reflection")[padding], align_corners=int(align))
