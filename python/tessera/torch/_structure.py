"""Conversions of ATen operators that move elements: views, parts, selections."""
from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
from torch.fx import Node

from ._convert import Converter, Unsupported, dtype_of, operator, shape_of


@operator("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "_reshape_copy",
          "view_copy", "unsqueeze_copy", "squeeze_copy", "_unsafe_reshape")
def _view(c: Converter, node: Node, x: Node, *args: Any, **kwargs: Any) -> str:
    if args and isinstance(args[0], torch.dtype):
        raise Unsupported("a view as another type")
    return c.reshape(x, shape_of(node))


@operator("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "alias_copy", "detach_copy", "dropout",
          "native_dropout", "lift", "identity", "positive", "lift_fresh", "_conj", "resolve_conj")
def _same(c: Converter, node: Node, x: Node, *args: Any, **kwargs: Any) -> Any:
    if "dropout" in str(node.target) and args[1]:
        raise Unsupported("dropout in training")
    return [c.name(x)] if "native_dropout" in str(node.target) else c.name(x)


@operator("getitem")
def _getitem(c: Converter, node: Node, x: Node, index: int) -> str:
    results = c.all_names(x)
    if index >= len(results):
        raise Unsupported(f"result {index} of {x.target}")
    return results[index]  # type: ignore[no-any-return]


@operator("permute", "permute_copy")
def _permute(c: Converter, node: Node, x: Node, dims: Sequence[int]) -> str:
    rank = len(shape_of(x))
    return c.emit("Transpose", x, perm=[d % rank for d in dims]) if rank else c.name(x)


@operator("transpose", "swapaxes", "transpose_copy")
def _transpose(c: Converter, node: Node, x: Node, a: int, b: int) -> str:
    order = list(range(len(shape_of(x))))
    order[a], order[b] = order[b], order[a]
    return c.emit("Transpose", x, perm=order)


@operator("t", "numpy_T", "mT", "t_copy")
def _t(c: Converter, node: Node, x: Node) -> str:
    rank = len(shape_of(x))
    if "mT" in str(node.target):
        return _transpose(c, node, x, -2, -1)
    return c.emit("Transpose", x, perm=list(reversed(range(rank)))) if rank > 1 else c.name(x)


@operator("expand", "expand_as", "broadcast_to", "expand_copy")
def _expand(c: Converter, node: Node, x: Node, *args: Any, **kwargs: Any) -> str:
    return c.name(x) if shape_of(x) == shape_of(node) else c.emit("Expand", x, c.constant(shape_of(node)))


@operator("copy")
def _copy(c: Converter, node: Node, x: Node, source: Node, *args: Any) -> str:
    value = c.as_type(source, dtype_of(node))
    return value if shape_of(source) == shape_of(node) else c.emit("Expand", value, c.constant(shape_of(node)))


@operator("cat", "concat")
def _cat(c: Converter, node: Node, tensors: Sequence[Node], dim: int = 0) -> str:
    # An empty vector joins anything.
    parts = [t for t in tensors if shape_of(t) != [0]] or list(tensors[:1])
    return c.emit("Concat", *[c.as_type(t, dtype_of(node)) for t in parts], axis=int(dim))


@operator("stack")
def _stack(c: Converter, node: Node, tensors: Sequence[Node], dim: int = 0) -> str:
    at = dim % len(shape_of(node))
    shape = [1 if d == at else size for d, size in enumerate(shape_of(node))]
    return c.emit("Concat", *[c.reshape(c.as_type(t, dtype_of(node)), shape) for t in tensors], axis=at)


def _bounds(size: int, start: Optional[int], end: Optional[int]) -> tuple[int, int]:
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(begin, stop)


@operator("slice", "slice_copy")
def _slice(c: Converter, node: Node, x: Node, dim: int = 0, start: Optional[int] = None, end: Optional[int] = None,
           step: int = 1) -> str:
    dim %= len(shape_of(x))
    begin, stop = _bounds(shape_of(x)[dim], start, end)
    if begin == 0 and stop == shape_of(x)[dim] and step == 1:
        return c.name(x)
    return c.slice(x, dim, begin, stop, step)


@operator("select", "select_copy")
def _select(c: Converter, node: Node, x: Node, dim: int, index: int) -> str:
    if isinstance(index, Node):
        return c.emit("Gather", x, index, axis=int(dim))
    dim %= len(shape_of(x))
    index %= shape_of(x)[dim]
    return c.reshape(c.slice(x, dim, index, index + 1), shape_of(node))


@operator("narrow")
def _narrow(c: Converter, node: Node, x: Node, dim: int, start: int, length: int) -> str:
    dim %= len(shape_of(x))
    if start < 0:
        start += shape_of(x)[dim]
    return c.slice(x, dim, start, start + length)


@operator("split", "split_with_sizes", "chunk", "split_copy", "split_with_sizes_copy", "tensor_split", "unsafe_split",
          "unsafe_chunk")
def _split(c: Converter, node: Node, x: Node, sizes: Any, dim: int = 0) -> list[str]:
    dim %= len(shape_of(x))
    at, parts = 0, []
    for part in node.meta["val"]:
        parts.append(c.slice(x, dim, at, at + int(part.shape[dim])))
        at += int(part.shape[dim])
    return parts


@operator("unbind", "unbind_copy")
def _unbind(c: Converter, node: Node, x: Node, dim: int = 0) -> list[str]:
    dim %= len(shape_of(x))
    return [c.reshape(c.slice(x, dim, i, i + 1), part.shape) for i, part in enumerate(node.meta["val"])]


@operator("repeat", "tile")
def _repeat(c: Converter, node: Node, x: Node, times: Sequence[int]) -> str:
    shape = shape_of(x)
    times = [1] * (len(shape) - len(times)) + [int(t) for t in times]  # of tile; repeat has one for each dimension
    lead = [1] * (len(times) - len(shape))
    return c.emit("Tile", c.reshape(x, lead + shape) if lead else x, c.constant(times))


@operator("roll")
def _roll(c: Converter, node: Node, x: Node, shifts: Sequence[int], dims: Sequence[int] = ()) -> str:
    value, sizes = c.name(x), shape_of(x)
    if not dims:
        value, sizes, dims = c.reshape(x, [-1]), [math.prod(sizes)], [0]
    for shift, dim in zip(shifts, dims):
        dim %= len(sizes)
        cut = -int(shift) % max(sizes[dim], 1)
        if cut:
            value = c.emit("Concat", c.slice(value, dim, cut, sizes[dim]), c.slice(value, dim, 0, cut), axis=dim)
    return c.reshape(value, shape_of(node))


@operator("flip")
def _flip(c: Converter, node: Node, x: Node, dims: Sequence[int]) -> str:
    value = c.name(x)
    for dim in dims:
        value = c.slice(value, dim % len(shape_of(x)), -1, -(1 << 62), -1)
    return value


@operator("constant_pad_nd", "pad")
def _pad(c: Converter, node: Node, x: Node, pads: Sequence[int], *args: Any) -> str:
    mode, value = ("constant", 0.0)
    for arg in args:
        mode, value = (arg, value) if isinstance(arg, str) else (mode, 0.0 if arg is None else arg)
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    rank = len(shape_of(x))
    before, after = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = int(pads[2 * i]), int(pads[2 * i + 1])
    number = c.constant(value, dtype_of(x)) if mode == "constant" else None
    return c.emit("Pad", x, c.constant(before + after), *([number] if number else []), mode=modes[mode])


@operator("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection(c: Converter, node: Node, x: Node, pads: Sequence[int]) -> str:
    return _pad(c, node, x, pads, "reflect")


@operator("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replication(c: Converter, node: Node, x: Node, pads: Sequence[int]) -> str:
    return _pad(c, node, x, pads, "replicate")


@operator("tril", "triu")
def _triangle(c: Converter, node: Node, x: Node, diagonal: int = 0) -> str:
    upper = "triu" in str(node.target)
    ones = torch.ones(shape_of(x)[-2:], dtype=torch.bool)
    kept = torch.triu(ones, diagonal) if upper else torch.tril(ones, diagonal)
    return c.emit("Where", c.tensor(kept), x, c.constant(0, dtype_of(x)))


@operator("embedding")
def _embedding(c: Converter, node: Node, table: Node, indices: Node, *args: Any, **kwargs: Any) -> str:
    return c.emit("Gather", table, indices, axis=0)


@operator("index_select")
def _index_select(c: Converter, node: Node, x: Node, dim: int, indices: Node) -> str:
    return c.emit("Gather", x, indices, axis=int(dim))


@operator("gather")
def _gather(c: Converter, node: Node, x: Node, dim: int, indices: Node, sparse_grad: bool = False) -> str:
    return c.emit("GatherElements", x, indices, axis=int(dim)) if shape_of(x) else c.name(x)


@operator("index", "_unsafe_index")
def _index(c: Converter, node: Node, x: Node, indices: Sequence[Optional[Node]]) -> str:
    """Selected dimensions next to each other, by indices of any shapes."""
    dims = [d for d, index in enumerate(indices) if index is not None]
    if any(dtype_of(indices[d]) in (torch.bool, torch.uint8) for d in dims):  # type: ignore[arg-type]
        raise Unsupported("a mask, whose result has a size that depends on data,")
    if len(dims) == 1:
        return c.emit("Gather", x, c.as_type(indices[dims[0]], torch.int64), axis=dims[0])
    if dims != list(range(dims[0], dims[-1] + 1)):
        raise Unsupported("indices apart from each other")
    common = list(torch.broadcast_shapes(*[shape_of(indices[d]) for d in dims]))  # type: ignore[arg-type]
    columns = []
    for d in dims:
        index = c.as_type(indices[d], torch.int64)
        wide = c.emit("Expand", index, c.constant(common)) if shape_of(indices[d]) != common else index  # type: ignore[arg-type]
        columns.append(c.reshape(wide, [*common, 1]))
    rank, first = len(shape_of(x)), dims[0]
    # GatherND selects leading dimensions: they go to the front, and what was before them back there.
    moved = c.emit("Transpose", x, perm=[*dims, *[d for d in range(rank) if d not in dims]]) if first else c.name(x)
    taken = c.emit("GatherND", moved, c.emit("Concat", *columns, axis=-1))
    if not first:
        return taken  # type: ignore[no-any-return]
    total, n = len(shape_of(node)), len(common)
    return c.emit("Transpose", taken, perm=[*range(n, n + first), *range(n), *range(n + first, total)])


@operator("slice_scatter")
def _slice_scatter(c: Converter, node: Node, x: Node, source: Node, dim: int = 0, start: Optional[int] = None,
                   end: Optional[int] = None, step: int = 1) -> str:
    dim %= len(shape_of(x))
    size = shape_of(x)[dim]
    begin, stop = _bounds(size, start, end)
    if step != 1:
        raise Unsupported("a step")
    parts = [c.slice(x, dim, 0, begin)] if begin else []
    parts.append(c.as_type(source, dtype_of(node)))
    parts += [c.slice(x, dim, stop, size)] if stop < size else []
    return c.emit("Concat", *parts, axis=dim) if len(parts) > 1 else parts[0]


@operator("select_scatter")
def _select_scatter(c: Converter, node: Node, x: Node, source: Node, dim: int, index: int) -> str:
    shape = shape_of(x)
    dim %= len(shape)
    index %= shape[dim]
    one = c.reshape(c.as_type(source, dtype_of(node)), [1 if d == dim else s for d, s in enumerate(shape)])
    parts = [c.slice(x, dim, 0, index)] if index else []
    parts.append(one)
    parts += [c.slice(x, dim, index + 1, shape[dim])] if index + 1 < shape[dim] else []
    return c.emit("Concat", *parts, axis=dim) if len(parts) > 1 else one


@operator("pixel_shuffle")
def _pixel_shuffle(c: Converter, node: Node, x: Node, factor: int) -> str:
    return c.emit("DepthToSpace", x, blocksize=int(factor), mode="CRD")


@operator("as_strided")
def _as_strided(c: Converter, node: Node, x: Node, sizes: Sequence[int], strides: Sequence[int],
                offset: Optional[int] = None) -> str:
    """Where only dimensions of one element are laid out otherwise, the elements are the same."""
    def moving(shape: Sequence[int], steps: Sequence[int]) -> list[tuple[int, int]]:
        return [(int(s), int(t)) for s, t in zip(shape, steps) if int(s) != 1]

    given = x.meta["val"]
    if moving(sizes, strides) != moving(given.shape, given.stride()) or offset not in (None, given.storage_offset()):
        raise Unsupported("memory that is read in another order")
    return c.reshape(x, shape_of(node))


@operator("topk")
def _topk(c: Converter, node: Node, x: Node, k: int, dim: int = -1, largest: bool = True, ordered: bool = True) -> Any:
    return c.emit("TopK", x, c.constant([int(k)]), results=2, axis=int(dim), largest=int(largest), sorted=int(ordered))


@operator("sym_size", "sym_stride", "sym_numel")
def _size(c: Converter, node: Node, *args: Any) -> str:
    raise Unsupported("a size that is not known")


@operator("_assert_async", "_assert_scalar")
def _assertion(c: Converter, node: Node, *args: Any) -> str:
    return ""
