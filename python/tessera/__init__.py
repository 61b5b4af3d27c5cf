"""Tessera: compile ONNX models to machine code, run them, tune them.

    import numpy as np, tessera

    model = tessera.compile("model.onnx", shapes={"input": (1, 3, 224, 224)})
    y = model(np.zeros((1, 3, 224, 224), np.float32))

``compile`` and ``load`` give a :class:`Model`, which is called on NumPy arrays or on anything with ``__dlpack__``
(PyTorch, JAX, CuPy) without converting or copying it. ``tune`` searches for faster schedules and returns a plan;
``quantize`` writes a model with layers in int8.
``from_torch`` compiles a module of PyTorch, as ``torch.compile(module, backend="tessera")`` does.
``generate`` writes text with a :class:`LanguageModel`.
``InferenceSession`` stands in for ONNX Runtime's class of that name, with what programs set up around it.
"""
from __future__ import annotations

from typing import Any

from ._binding import IOBinding, OrtValue
from ._model import Error, Model, Session, TensorInfo, compile, load
from ._native import version as _version
from ._onnx import ModelMetadata
from ._options import (ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions, get_all_providers,
                       get_available_providers, get_device, set_default_logger_severity)
from ._quantize import Quantised, quantize
from ._session import InferenceSession, NodeArg
from ._text import LanguageModel, generate
from ._tune import Progress, Tuning, program, tune

__version__: str = _version()


def from_torch(module: Any, args: Any = (), kwargs: Any = None, **options: Any) -> Model:
    """A compiled model of a module of PyTorch for tensors of the shapes of ``args``: see :func:`tessera.torch.from_torch`."""
    from .torch import from_torch as convert  # PyTorch is imported by those who have it

    return convert(module, args, kwargs, **options)


__all__ = [
    "Error", "ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "LanguageModel", "Model",
    "ModelMetadata", "NodeArg", "OrtValue", "Progress", "Quantised", "RunOptions", "Session", "SessionOptions",
    "TensorInfo", "Tuning", "compile", "from_torch", "generate", "get_all_providers", "get_available_providers", "get_device",
    "load", "program", "quantize", "set_default_logger_severity", "tune",
]
del annotations
