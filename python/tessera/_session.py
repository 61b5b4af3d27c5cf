"""A stand-in for the common case of ONNX Runtime: `InferenceSession(path).run(None, {...})`."""
from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from ._binding import IOBinding, OrtValue
from ._model import Model, PathLike, TensorInfo, compile
from ._onnx import Declared, ElementTypes, ModelMetadata, graph_values, model_metadata
from ._options import SessionOptions

_MOST_SHAPES = 8  # of one session that are kept compiled

_TYPES = {
    "f16": "float16", "f32": "float", "f64": "double", "bool": "bool", "bf16": "bfloat16", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}


class NodeArg(NamedTuple):
    """Name, shape (sizes, names of symbolic dimensions or None) and type ("tensor(float)") of an input or output."""

    name: str
    shape: list[Union[int, str, None]]
    type: str


def _of_file(values: Sequence[Declared]) -> list[NodeArg]:
    return [NodeArg(name, shape, f"tensor({ElementTypes.get(kind, '?')})") for name, kind, shape in values]


def _of_model(tensors: Sequence[TensorInfo]) -> list[NodeArg]:
    return [NodeArg(t.name, list(t.shape), f"tensor({_TYPES[t.dtype]})") for t in tensors]


class InferenceSession:
    """Runs an ONNX model as ``onnxruntime.InferenceSession`` does. A model whose shapes are fixed is compiled at once,
    another one when it is first run with new shapes of its inputs; the last eight are kept.

    ``sess_options`` sets threads and free dimensions; of ``providers``, CUDAExecutionProvider first compiles for a GPU.
    ``plan``, ``dtype``, ``cost_model``, ``fast_math`` and ``values`` are those of :func:`compile`. Other arguments are
    taken and ignored.
    """

    def __init__(self, path_or_bytes: Union[PathLike, bytes], sess_options: Any = None,
                 providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Any]] = None, *,
                 plan: Any = None, dtype: Optional[str] = None, cost_model: Optional[str] = None,
                 fast_math: Optional[str] = None, values: Optional[Mapping[str, Any]] = None, **ignored: Any) -> None:
        self._source = path_or_bytes if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._dims = dict(getattr(sess_options, "_dims", {}))
        first = (providers or [None])[0]
        name, settings = first if isinstance(first, tuple) else (first, (provider_options or [{}])[0])
        on_gpu = name in ("CUDAExecutionProvider", "TensorrtExecutionProvider")
        self._how = {
            "threads": int(getattr(sess_options, "intra_op_num_threads", 0) or 0), "target": "cuda" if on_gpu else None,
            "device": int(settings.get("device_id", 0)) if on_gpu else 0, "plan": plan, "dtype": dtype,
            "cost_model": cost_model, "fast_math": fast_math, "values": values}
        self._models: OrderedDict[tuple[tuple[int, ...], ...], Model] = OrderedDict()
        self._inputs, self._outputs = self._declared()
        if all(isinstance(size, int) for node in self._inputs for size in node.shape):
            model = self._model(tuple(tuple(n.shape) for n in self._inputs))  # type: ignore[arg-type]
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

    def _model(self, shapes: tuple[tuple[int, ...], ...]) -> Model:
        model = self._models.get(shapes)
        if model is None:
            named = {n.name: s for n, s in zip(self._inputs, shapes)}
            model = compile(self._source, shapes=named, **self._how)
            self._models[shapes] = model
            if len(self._models) > _MOST_SHAPES:
                self._models.popitem(last=False)
        else:
            self._models.move_to_end(shapes)
        return model

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
        inputs = [input_feed[name] for name in names]
        model = self._model(tuple(tuple(x.shape) for x in inputs))
        result = model(*inputs)
        outputs = list(result) if len(model.outputs) > 1 else [result]
        if not output_names:
            return outputs
        at = {t.name: i for i, t in enumerate(model.outputs)}
        unknown = [name for name in output_names if name not in at]
        if unknown:
            raise ValueError(f"no output {unknown[0]!r}; outputs are: {', '.join(at)}")
        return [outputs[at[name]] for name in output_names]

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
