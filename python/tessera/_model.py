"""Models and sessions: what `compile` and `load` return."""
from __future__ import annotations

import errno
import os
import sys
import threading
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from . import _native
from ._native import Error
from ._words import python_errors

# By Tessera's name of the type: NumPy's, which is also PyTorch's but for bool.
_NUMPY = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}

PathLike = Union[str, "os.PathLike[str]"]


class TensorInfo(NamedTuple):
    """An input or output of a model: ``name``, ``dtype`` ("f32", "i64", ...) and ``shape``, where -1 is a size that
    follows from data and None any shape.
    """

    name: str
    dtype: str
    shape: Optional[tuple[int, ...]]

    @property
    def is_open(self) -> bool:
        return self.shape is None or -1 in self.shape


class Session:
    """Memory and threads to run a model with. A session runs one call at a time; others wait for it. Use one session
    per thread to run a model in several threads at once (see examples/serve).
    """

    def __init__(self, model: Model, threads: int = 0) -> None:
        self.model = model
        native = model._native.session(threads)
        self._run, self._run_new, self._allocate_with = native.run, native.run_new, native.allocate_with
        self._native, self._lock = native, threading.Lock()
        self._open = any(t.is_open for t in model.outputs)
        self._count = len(model.inputs)

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Runs the model. Inputs go by position or by name; NumPy arrays give NumPy arrays, PyTorch tensors give
        tensors. ``out``: a tensor or a sequence of them to write the outputs to. Returns the output, or a tuple.
        """
        if named or len(inputs) != self._count:
            inputs = self._ordered(inputs, named)
        if out is not None:
            outputs = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        else:
            made = self._run_new(inputs)
            if made is not NotImplemented:
                return made
            if self._open:
                return self._run_open(inputs)
            inputs, outputs = self._prepared(inputs)
        if self._open:  # nobody runs between a run and the outputs that it left
            with self._lock:
                self._run(inputs, outputs)
        else:
            self._run(inputs, outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        return f"<tessera.Session of {self.model!r}>"

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the model on inputs by name; returns the outputs by name."""
        outputs = self(*self._ordered((), inputs))  # not by keyword: an input may be called "out"
        names = [t.name for t in self.model.outputs]
        return dict(zip(names, outputs if len(names) > 1 else (outputs,)))

    def _ordered(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        names = [t.name for t in self.model.inputs]
        given = dict(zip(names, inputs))
        for name, value in named.items():
            if name not in names or name in given:
                raise TypeError(f"{'second' if name in given else 'no'} input {name!r}; inputs are: {', '.join(names)}")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing or len(inputs) > len(names):
            raise TypeError(f"the model takes {len(names)} inputs ({', '.join(names)}), {len(inputs) + len(named)} given")
        return tuple(given[name] for name in names)

    def _run_open(self, inputs: tuple[Any, ...]) -> Any:
        """Outputs whose shapes the run itself finds."""
        torch = sys.modules.get("torch")
        as_torch = torch is not None and any(isinstance(x, torch.Tensor) for x in inputs)
        if not as_torch:
            self._expect_numpy()
            inputs = self._arrays(inputs)
        with self._lock, python_errors():
            self._run(inputs, ())
            made = [self._native.output(i) for i in range(len(self.model.outputs))]
        if as_torch:
            outputs = [torch.from_dlpack(capsule) for _, capsule in made]  # type: ignore[union-attr]
        else:
            import numpy

            outputs = [numpy.empty(shape, _NUMPY[t.dtype]) for (shape, _), t in zip(made, self.model.outputs)]
            for array, (_, capsule) in zip(outputs, made):
                _native.copy(capsule, array)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _expect_numpy(self) -> None:
        if any(t.dtype not in _NUMPY for t in self.model.outputs):
            raise TypeError("NumPy has no bfloat16: give PyTorch tensors, or out=")

    def _arrays(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Numbers and lists are arrays of the type that the model takes; arrays are checked, not converted."""
        import numpy

        def array(x: Any, t: TensorInfo) -> Any:
            if hasattr(x, "__dlpack__") or hasattr(x, "__array_interface__"):
                return x
            if t.dtype not in _NUMPY:
                raise TypeError(f"NumPy has no bfloat16: give input {t.name!r} as a PyTorch tensor")
            return numpy.asarray(x, numpy.dtype(_NUMPY[t.dtype]))

        return tuple(map(array, inputs, self.model.inputs))

    def _prepared(self, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        torch = sys.modules.get("torch")
        if torch is not None:
            # Where one lies on a device, results do.
            first = min((x for x in inputs if isinstance(x, torch.Tensor)), key=lambda x: x.device.type == "cpu", default=None)
            if first is not None:
                names = ["bfloat16" if t.dtype == "bf16" else _NUMPY[t.dtype] for t in self.model.outputs]
                return inputs, tuple(torch.empty(t.shape, dtype=getattr(torch, name), device=first.device)
                                     for t, name in zip(self.model.outputs, names))
        import numpy

        self._expect_numpy()
        # From the next call on, arrays are answered without coming here.
        empty = tuple((t.shape, numpy.dtype(_NUMPY[t.dtype])) for t in self.model.outputs)
        self._allocate_with(numpy.ndarray, numpy.empty, empty)
        return self._arrays(inputs), tuple(numpy.empty(shape, dtype) for shape, dtype in empty)


class Model:
    """A compiled model. Call it as a function, or make a :class:`Session` for each thread that does."""

    def __init__(self, native: _native.Model, threads: int = 0, again: Any = None) -> None:
        self._native = native
        self._again = again
        self._threads = threads
        self._default: Optional[Session] = None
        self._run_new: Any = self._start
        self.inputs = tuple(TensorInfo(*t) for t in native.inputs())
        self.outputs = tuple(TensorInfo(*t) for t in native.outputs())

    def session(self, threads: int = 0) -> Session:
        """A session of its own; ``threads``: the caller's included, 0: as many as the model was compiled with."""
        return Session(self, threads or self._threads)

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Runs the model: see :meth:`Session.__call__`."""
        if out is None and not named:
            made = self._run_new(inputs)
            if made is not NotImplemented:
                return made
        return (self._default or self._first())(*inputs, out=out, **named)

    def _first(self) -> Session:
        session = self._default = self.session()
        self._run_new = session._run_new
        return session

    def _start(self, inputs: tuple[Any, ...]) -> Any:
        return self._first()._run_new(inputs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the model on inputs by name; returns the outputs by name."""
        return (self._default or self._first()).run(inputs)

    def save(self, folder: PathLike, *, name: Optional[str] = None, target: Optional[str] = None,
             cc: Optional[str] = None, emit: str = "so", weights: str = "auto") -> None:
        """Writes the model as a library with a C header (docs/guide/artifacts.md), which needs nothing of Tessera. ``emit``:
        "so", "a" or "obj"; ``weights``: "auto", "embed" or "file"; ``target``: another machine (`tessera targets`).
        """
        kinds, places = ("so", "a", "obj"), ("auto", "embed", "file")
        if emit not in kinds or weights not in places:
            raise ValueError(f"emit is one of {', '.join(kinds)}; weights of {', '.join(places)}")
        with python_errors():
            self._native.save(os.fspath(folder), name, target, cc, kinds.index(emit), places.index(weights))

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        """Another process compiles or loads it again, mostly out of the cache."""
        if self._again is None:
            raise TypeError("a model of a module of PyTorch keeps no copy of the weights to be pickled with: write it by "
                            "save() and read it by tessera.load()")
        return _again, self._again

    @property
    def plan_digest(self) -> str:
        """16 hexadecimal digits that say what the kernels are, as ``plan_digest`` of an artifact: the same digits, the
        same code. Empty for another processor, and where shapes follow from data.
        """
        return self._native.plan_digest()

    def __repr__(self) -> str:
        def text(tensors: Sequence[TensorInfo]) -> str:
            return ", ".join(f"{t.name}: {t.dtype}{'[...]' if t.shape is None else list(t.shape)}" for t in tensors)

        return f"<tessera.Model ({text(self.inputs)}) -> ({text(self.outputs)})>"


Shapes = Union[Mapping[str, Sequence[int]], None]


def _again(function: str, source: Any, options: dict[str, Any]) -> Model:
    return globals()[function](source, **options)  # type: ignore[no-any-return]


def present(source: Union[str, bytes]) -> None:
    """FileNotFoundError where a path leads nowhere; built-in networks have none."""
    if isinstance(source, str) and source and not source.startswith("zoo:") and not os.path.exists(source):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)


def _literal(value: Any) -> str:
    """A value of an input as the compiler reads it: numbers row by row."""
    if isinstance(value, str):
        return value
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        numbers = [_literal(item).strip("[]") for item in value]
        return f"[{','.join(number for number in numbers if number)}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def compile(model: Union[PathLike, bytes], shapes: Shapes = None, dims: Optional[Mapping[str, int]] = None, *,
            plan: Any = None, strict: bool = False, cost_model: Optional[str] = None, target: Optional[str] = None,
            device: int = 0, threads: int = 0, build_threads: int = 0, fast_math: Optional[str] = None,
            dtype: Optional[str] = None, values: Optional[Mapping[str, Any]] = None, batch: int = 0) -> Model:
    """Compiles an ONNX file (a path, its bytes, or "zoo:NAME") for this machine.

    shapes: of inputs whose shapes the model leaves open, by name; dims: sizes of its symbolic dimensions; batch: of
    all first dimensions that are symbolic, or of a built-in network. values: arrays, numbers or lists that inputs
    always are, by name; the model is made for them, without those inputs.
    plan: what :func:`tune` returned, or the path of a plan; strict: refuse a plan that lacks a task of the model.
    cost_model: "shipped" or paths of weights that choose schedules where no plan does.
    target: "cuda" or "opencl" for a GPU, of which ``device`` is the number. threads: of a run, 0: one per core.
    fast_math: "tf32" multiplies f32 on the tensor cores of a GPU, rounded to 10 bits of fraction; "bf16x6" as three
    parts of bf16, about as exactly as f32. dtype: "bf16" or "f16" computes f32 models in it, with sums in f32, on
    machines that multiply it.
    """
    source = model if isinstance(model, bytes) else os.fspath(model)
    present(source)
    path = getattr(plan, "plan", plan)
    options = {
        "shapes": {k: tuple(v) for k, v in shapes.items()} if shapes else None, "dims": dict(dims) if dims else None,
        "plan": os.fspath(path) if path is not None else None, "strict": int(strict), "cost_model": cost_model,
        "target": target, "device": device, "build_threads": build_threads, "threads": threads, "fast_math": fast_math,
        "dtype": dtype, "values": {k: _literal(v) for k, v in values.items()} if values else None, "batch": batch}
    with python_errors():
        native = _native.compile(source, *options.values())
    return Model(native, threads, ("compile", source, options))


def load(path: PathLike, *, threads: int = 0) -> Model:
    """Loads what ``tessera compile`` or :meth:`Model.save` wrote: the folder, or its shared library."""
    source = os.fspath(path)
    present(source)
    with python_errors():
        return Model(_native.load(source), threads, ("load", source, {"threads": threads}))
