"""The backend of torch.compile. Graphs come from Dynamo through AOTAutograd; each is compiled at its first call, when the
weights are known, and for the sizes of that call."""
from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from typing import Any, Callable, Mapping, Optional, Sequence

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch.fx import GraphModule, Node

from .. import _native
from .._model import compile
from .._native import Error
from . import _pointwise, _products, _structure  # noqa: F401  they register conversions
from ._convert import Converter, Output, Unsupported, decompositions

_MOST_SIZES = 8   # of one graph that are kept compiled
_MOST_CHANGES = 2  # of weights; then they become inputs


class Graph:
    """One graph, compiled for the sizes and weights that it is called with."""

    def __init__(self, graph: GraphModule, weights: Sequence[int], options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = dict(options)
        self._weights = tuple(weights)
        self._changes = 0
        values = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
        self._sizes = tuple(i for i, v in enumerate(values) if not isinstance(v, torch.Tensor))
        self._calls: OrderedDict[tuple[Any, ...], Callable[..., Any]] = OrderedDict()
        self._last: Any = None

    def run(self, args: Sequence[Any]) -> Any:
        call = self._last
        if call is None or self._sizes:
            key = tuple(args[i] for i in self._sizes)
            call = self._last = self._calls.get(key) or self._add(key, args)
        result = call(args)
        return result if result is not _STALE else self._with_new_weights(args)

    def _with_new_weights(self, args: Sequence[Any]) -> Any:
        self._calls.clear()
        self._last = None
        self._changes += 1
        if self._changes > _MOST_CHANGES:
            self._weights = ()
        return self.run(args)

    def function(self) -> Callable[[list[Any]], Any]:
        """As AOTAutograd calls it: with a list."""
        def run(args: list[Any]) -> Any:
            return self.run(args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _add(self, key: tuple[Any, ...], args: Sequence[Any]) -> Callable[..., Any]:
        if len(self._calls) == 2:
            warnings.warn(f"tessera: a graph is called with other sizes again ({', '.join(map(str, key))}); each set of "
                          "sizes is compiled by itself: pad inputs to a few sizes where there are many", stacklevel=2)
        call = self._calls[key] = self._made(args)
        if len(self._calls) > _MOST_SIZES:
            self._calls.popitem(last=False)
        return call

    def _made(self, args: Sequence[Any]) -> Callable[..., Any]:
        graph = self._graph
        try:
            if self._sizes:
                graph = _with_sizes(graph, args)
            return _call_of(graph, self._weights, args, self._options)
        except (Unsupported, Error) as error:
            warnings.warn(f"tessera: a graph of {_operations(graph)} operations runs as PyTorch runs it: {error}",
                          stacklevel=2)
            return lambda values: graph(*values)


_STALE = object()


def _call_of(graph: GraphModule, weights: Sequence[int], args: Sequence[Any],
             options: Mapping[str, Any]) -> Callable[..., Any]:
    """The graph compiled, as a function of all arguments. It gives _STALE where the weights are no longer those
    that it was compiled with.
    """
    nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    weights = [i for i in weights if not args[i].is_inference()]  # nobody could tell when those change
    tensors = [i for i, n in enumerate(nodes) if i not in set(weights) and isinstance(n.meta.get("val"), torch.Tensor)]
    content, places = Converter({nodes[i]: args[i] for i in weights}).convert(graph.graph)
    if not tensors or not any(isinstance(p, Output) for p in places):
        raise Unsupported("no input or no result that is a tensor")
    on_gpu = next((args[i].device for i in tensors if args[i].is_cuda), None)
    _expect_one_device(graph, on_gpu or torch.device("cpu"))
    target = {"target": "cuda", "device": on_gpu.index or 0} if on_gpu is not None else {}
    model = compile(content, **{"threads": torch.get_num_threads(), **target, **options})
    model._again = None  # nobody pickles it, and it holds the bytes of the weights
    at = {node: i for i, node in enumerate(nodes)}
    plain = all(isinstance(p, Output) for p in places)
    # By result: which output it is, which argument, or the value itself.
    sources = [(p.index, None, None) if isinstance(p, Output) else (None, at[p], None) if isinstance(p, Node) else
               (None, None, p) for p in places]

    # Called at every run: what follows is written for few steps of the interpreter.
    inputs_of, unchanged, places_of_weights = _getter(tensors), _native.unchanged, tuple(weights)
    kept = tuple(args[i] for i in weights)
    versions = tuple(w._version for w in kept)
    one = len(model.outputs) == 1
    run_new = model.session()._run_new

    def call(args: Sequence[Any]) -> Any:
        if kept and not unchanged(args, places_of_weights, kept, versions):
            return _STALE
        inputs = inputs_of(args)
        results = run_new(inputs)
        if results is NotImplemented:  # devices, and inputs that could be differentiated
            results = model(*map(_without_gradient, inputs))
        if one:
            results = (results,)
        if plain:
            return results
        return tuple(results[made] if made is not None else args[given] if given is not None else value
                     for made, given, value in sources)

    return call


def _expect_one_device(graph: GraphModule, device: torch.device) -> None:
    """Results lie where the model computes."""
    results = next(n for n in reversed(graph.graph.nodes) if n.op == "output").all_input_nodes
    for node in results:
        value = node.meta.get("val")
        if node.op != "placeholder" and isinstance(value, torch.Tensor) and value.device != device:
            raise Unsupported(f"a result on {value.device} where the inputs lie on {device},")


def _without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() if tensor.requires_grad else tensor


def _getter(indices: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    if len(indices) > 1:
        return operator.itemgetter(*indices)
    if indices:
        only = indices[0]
        return lambda values: (values[only],)
    return lambda values: ()


def _with_sizes(graph: GraphModule, args: Sequence[Any]) -> GraphModule:
    """The graph for these sizes: what is computed of them becomes constants."""
    from torch.fx.experimental.proxy_tensor import make_fx

    try:
        with torch.no_grad():
            return make_fx(lambda *values: graph(*values), tracing_mode="fake")(*args)
    except Exception as error:  # tracing fails in as many ways as there are operators
        raise Unsupported(f"PyTorch cannot trace it for these sizes: {error}") from error


def _operations(graph: GraphModule) -> int:
    return sum(n.op == "call_function" for n in graph.graph.nodes)


def _static_inputs() -> Sequence[int]:
    """Which inputs of the graph that AOTAutograd made are parameters and buffers."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    written = set(getattr(metadata, "mutated_inp_runtime_indices", None) or ())
    return [i for i in getattr(metadata, "static_input_indices", None) or () if i not in written]


def backend(graph: GraphModule, example_inputs: Sequence[Any], *, options: Optional[Mapping[str, Any]] = None,
            **ignored: Any) -> Callable[..., Any]:
    """What torch.compile(backend="tessera") calls. ``options``: those of :func:`tessera.compile`, and those of what it
    returns. Graphs that are differentiated run as PyTorch runs them, with a warning.
    """
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs):
        warnings.warn("tessera: gradients are wanted, and Tessera computes none: this graph runs as PyTorch runs it; call "
                      "the module under torch.no_grad() or torch.inference_mode()", stacklevel=2)
        return graph.forward  # type: ignore[no-any-return]

    def compiler(made: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return Graph(made, _static_inputs(), options or {}).function()

    return aot_autograd(fw_compiler=compiler, inference_compiler=compiler,  # type: ignore[no-any-return]
                        decompositions=decompositions())(graph, example_inputs)
