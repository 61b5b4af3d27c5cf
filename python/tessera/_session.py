"""A stand-in for the common case of ONNX Runtime: `InferenceSession(path).run(None, {...})`."""
from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections import OrderedDict
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

from ._binding import IOBinding, OrtValue
from ._lengths import Buckets, Shape, shapes_of, sizes_of
from ._model import Model, PathLike, TensorInfo, compile
from ._onnx import Declared, ElementTypes, ModelMetadata, graph_values, model_metadata
from ._options import SessionOptions, chosen_provider

_LOG = logging.getLogger("tessera")
# Programs of one session that are kept: on processors they share their weights.
_MOST_PROGRAMS, _MOST_PROGRAMS_OF_GPU = 32, 8
_WARN_AFTER = 3  # compilations because of new shapes
# How much padding may change results, in parts of the largest: the order of sums differs.
_PADDING, _PADDING_OF_HALVES = 1e-4, 3e-2

_TYPES = {
    "f16": "float16", "f32": "float", "f64": "double", "bool": "bool", "bf16": "bfloat16", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}

# NumPy's name of each type where it is another one.
_NUMPY = {**{name: name for name in _TYPES.values()}, "float": "float32", "double": "float64"}


class NodeArg(NamedTuple):
    """Name, shape (sizes, names of symbolic dimensions or None) and type ("tensor(float)") of an input or output."""

    name: str
    shape: list[Union[int, str, None]]
    type: str


def _of_file(values: Sequence[Declared]) -> list[NodeArg]:
    return [NodeArg(name, shape, f"tensor({ElementTypes.get(kind, '?')})") for name, kind, shape in values]


def _of_model(tensors: Sequence[TensorInfo]) -> list[NodeArg]:
    return [NodeArg(t.name, list(t.shape or ()), f"tensor({_TYPES[t.dtype]})") for t in tensors]


def _array(value: Any, node: NodeArg) -> Any:
    """Arrays and tensors as they are; a number or a list as an array of the declared type."""
    if hasattr(value, "shape"):
        return value
    import numpy

    kind = node.type[len("tensor("):-1]
    if kind == "bfloat16":
        raise TypeError(f"NumPy has no bfloat16: give input {node.name!r} as a PyTorch tensor")
    return numpy.asarray(value, _NUMPY.get(kind))


class InferenceSession:
    """Runs an ONNX model as ``onnxruntime.InferenceSession`` does, also from several threads. A model whose shapes are
    fixed is compiled at once, another one when it is first run with new shapes of its inputs, or by :meth:`warm_up`.

    ``programs``: how many compiled shapes are kept, those used last (32; 8 on a GPU). ``buckets``, for example
    ``{"sequence": [16, 32, 64]}``: inputs are padded with zeros to the next of these sizes, and outputs are cut, so that
    three programs serve all lengths. That is for models that take no notice of padding, as those with an attention
    mask: the first padded inputs are also run alone, and where results differ, buckets are given up with a warning.
    ``sess_options`` sets threads and free dimensions. The first of ``providers`` that is here counts: CUDAExecutionProvider
    compiles for a GPU, all others for the processor.
    ``plan``, ``dtype``, ``cost_model``, ``fast_math`` and ``values`` are those of :func:`compile`. Other arguments are
    taken and ignored.
    """

    def __init__(self, path_or_bytes: Union[PathLike, bytes], sess_options: Any = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Any]] = None, *,
                 plan: Any = None, dtype: Optional[str] = None, cost_model: Optional[str] = None,
                 fast_math: Optional[str] = None, values: Optional[Mapping[str, Any]] = None,
                 programs: Optional[int] = None, buckets: Optional[Mapping[str, Iterable[int]]] = None,
                 **ignored: Any) -> None:
        self._source = path_or_bytes if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._dims = dict(getattr(sess_options, "_dims", {}))
        if getattr(sess_options, "optimized_model_filepath", ""):
            warnings.warn("optimized_model_filepath: Tessera writes no optimized model", stacklevel=2)
        on_gpu, settings = chosen_provider(providers, provider_options)
        self._how = {
            "threads": int(getattr(sess_options, "intra_op_num_threads", 0) or 0), "target": "cuda" if on_gpu else None,
            "device": int(settings.get("device_id", 0)) if on_gpu else 0, "plan": plan, "dtype": dtype,
            "cost_model": cost_model, "fast_math": fast_math, "values": values}
        self._models: OrderedDict[tuple[Shape, ...], Model] = OrderedDict()
        self._lock = threading.Lock()  # of the models that are kept
        self._most = programs if programs is not None else _MOST_PROGRAMS_OF_GPU if on_gpu else _MOST_PROGRAMS
        if self._most < 1:
            raise ValueError(f"programs: at least one is kept, not {programs}")
        self._met = 0  # shapes that were compiled when they were run
        self._inputs, self._outputs = self._declared()
        self._shapes = {node.name: node.shape for node in self._inputs}
        self._buckets = Buckets(buckets, self._shapes) if buckets else None
        if all(isinstance(size, int) for node in self._inputs for size in node.shape):
            model = self._model(tuple(tuple(n.shape) for n in self._inputs))  # type: ignore[arg-type]
            if not any(t.is_open for t in model.outputs):
                self._outputs = _of_model(model.outputs)

    def _content(self) -> bytes:
        if isinstance(self._source, bytes):
            return self._source
        with open(self._source, "rb") as file:
            return file.read()

    def _declared(self) -> tuple[list[NodeArg], list[NodeArg]]:
        if isinstance(self._source, str) and self._source.startswith("zoo:"):
            model = compile(self._source, **self._how)
            self._models[tuple(t.shape for t in model.inputs)] = model
            return _of_model(model.inputs), _of_model(model.outputs)
        inputs, outputs = graph_values(self._content())
        given = self._how["values"] or {}
        inputs = [(name, kind, [self._dims.get(size, size) if isinstance(size, str) else size for size in shape])
                  for name, kind, shape in inputs if name not in given]
        return _of_file(inputs), _of_file(outputs)

    def _model(self, shapes: tuple[Shape, ...], expected: bool = True) -> Model:
        """Of the shapes of its inputs. Unless it is expected, having to compile it is worth a warning."""
        with self._lock:
            model = self._models.get(shapes)
            if model is not None:
                self._models.move_to_end(shapes)
                return model
        started = time.monotonic()
        model = compile(self._source, shapes=self._named(shapes), **self._how)
        _LOG.info("compiled for %s in %.2f s", self._text(shapes), time.monotonic() - started)
        with self._lock:
            there = self._models.setdefault(shapes, model)
            if there is not model:
                return there  # another thread was faster
            dropped = self._models.popitem(last=False)[0] if len(self._models) > self._most else None
            self._met += not expected
        if self._met == _WARN_AFTER and not expected:
            warnings.warn(f"{self._met} shapes were compiled when they were first run. Name shapes before by warm_up(), "
                          "pad inputs by buckets=, or fix a size by add_free_dimension_override_by_name()",
                          stacklevel=4)
        if dropped is not None:
            _LOG.info("dropped the program for %s: %d are kept (programs=)", self._text(dropped), self._most)
        return model

    def _named(self, shapes: tuple[Shape, ...]) -> dict[str, Shape]:
        return {node.name: shape for node, shape in zip(self._inputs, shapes)}

    def _text(self, shapes: tuple[Shape, ...]) -> str:
        return ", ".join(f"{name}{list(shape)}" for name, shape in self._named(shapes).items())

    def warm_up(self, shapes: Iterable[Mapping[str, Any]]) -> None:
        """Compiles for shapes that are to come. Each is given by sizes of dimensions, or by shapes of inputs:
        ``warm_up([{"batch": 1, "sequence": n} for n in (16, 32)])``. With buckets, those that such inputs are padded to.
        """
        for given in shapes:
            wanted = shapes_of(self._shapes, given)
            buckets = self._buckets
            if buckets:
                wanted = buckets.shapes(wanted, buckets.padding(sizes_of(self._shapes, wanted)))
            self._model(tuple(wanted.values()))

    def run(self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any],
            run_options: Any = None) -> list[Any]:
        """The outputs of those names, or all (None), for inputs by name."""
        names = [n.name for n in self._inputs]
        for name in names:
            if name not in input_feed:
                raise ValueError(f"input {name!r} is missing; inputs are: {', '.join(names)}")
        for name in input_feed:
            if name not in names:
                raise ValueError(f"no input {name!r}; inputs are: {', '.join(names)}")
        inputs = [_array(input_feed[node.name], node) for node in self._inputs]
        buckets = self._buckets
        known, outputs = self._run_padded(buckets, inputs) if buckets else self._run(inputs)
        if not output_names:
            return outputs
        at = {name: i for i, name in enumerate(known)}
        unknown = [name for name in output_names if name not in at]
        if unknown:
            raise ValueError(f"no output {unknown[0]!r}; outputs are: {', '.join(at)}")
        return [outputs[at[name]] for name in output_names]

    def _run(self, inputs: Sequence[Any], expected: bool = False) -> tuple[list[str], list[Any]]:
        """Names and values of all outputs."""
        model = self._model(tuple(tuple(x.shape) for x in inputs), expected)
        result = model(*inputs)
        return [t.name for t in model.outputs], list(result) if len(model.outputs) > 1 else [result]

    def _run_padded(self, buckets: Buckets, inputs: Sequence[Any]) -> tuple[list[str], list[Any]]:
        import numpy

        inputs = [numpy.asarray(x) for x in inputs]
        shapes = self._named(tuple(tuple(x.shape) for x in inputs))
        padding = buckets.padding(sizes_of(self._shapes, shapes))
        if not padding:
            return self._run(inputs)
        more = [buckets.pad(name, x, padding) for name, x in zip(shapes, inputs)]
        names, outputs = self._run(more)
        if buckets.compared(padding):
            return names, buckets.cut(outputs, padding)
        names, exact = self._run(inputs, expected=True)
        halves = self._how["dtype"] or any(x.dtype.itemsize < 4 for x in exact if x.dtype.kind == "f")
        why = buckets.compare(names, exact, outputs, padding, _PADDING_OF_HALVES if halves else _PADDING)
        if why:
            text = ", ".join(f"{name} from {size} to {to}" for name, (size, to) in padding.items())
            warnings.warn(f"buckets are given up: padding {text} {why}. Each shape is compiled", stacklevel=3)
            self._buckets = None
        return names, exact

    def get_inputs(self) -> list[NodeArg]:
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Of a model with open shapes, what the file says of them."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        return []

    def get_modelmeta(self) -> ModelMetadata:
        zoo = isinstance(self._source, str) and self._source.startswith("zoo:")
        return ModelMetadata("tessera", str(self._source)) if zoo else model_metadata(self._content())

    def get_session_options(self) -> Any:
        return self._options

    def get_providers(self) -> list[str]:
        return ["TesseraExecutionProvider"]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        how = {"device_id": str(self._how["device"])} if self._how["target"] else {}
        return {name: dict(how) for name in self.get_providers()}

    def end_profiling(self) -> str:
        """The name of no file: nothing is profiled (`tessera bench --profile` does)."""
        return ""

    def set_providers(self, providers: Sequence[Any], provider_options: Any = None) -> None:
        """Ignored: a session stays where it was made."""

    def io_binding(self) -> IOBinding:
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        iobinding._run()

    def run_with_ort_values(self, output_names: Optional[Sequence[str]], input_dict_ort_values: Mapping[str, OrtValue],
                            run_options: Any = None) -> list[OrtValue]:
        feed = {name: value._data for name, value in input_dict_ort_values.items()}
        return [OrtValue(result) for result in self.run(output_names, feed)]

    def __repr__(self) -> str:
        source = f"{len(self._source)} bytes" if isinstance(self._source, bytes) else self._source
        return f"<tessera.InferenceSession of {source}, {len(self._models)} compiled>"
