"""Modules of PyTorch as compiled models: through torch.export, without a file."""
from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

import torch

from .._model import Model, compile
from . import _pointwise, _products, _structure  # noqa: F401  they register conversions
from ._convert import Converter, Output, Unsupported, decompositions


def _on_cuda(tensors: Any) -> Optional[int]:
    return next((t.device.index or 0 for t in tensors if isinstance(t, torch.Tensor) and t.is_cuda), None)


def from_torch(module: Union[torch.nn.Module, torch.export.ExportedProgram], args: Any = (),
               kwargs: Optional[Mapping[str, Any]] = None, **options: Any) -> Model:
    """A compiled model of a module, or of what torch.export made of it, for tensors of the shapes of ``args``.

    The model has the weights that the module has now. Its inputs are the tensors of ``args`` and ``kwargs``, named as
    the module names them. ``options`` are those of :func:`tessera.compile`.
    """
    if isinstance(module, torch.export.ExportedProgram):
        program = module
    else:
        args = args if isinstance(args, tuple) else tuple(args) if isinstance(args, list) else (args,)
        if module.training:
            raise ValueError("the module is in training mode; call its eval() first")
        with torch.no_grad():
            program = torch.export.export(module, args, dict(kwargs or {}))
    content, device = as_onnx(program)
    if device is not None:
        options = {"target": "cuda", "device": device, **options}
    model = compile(content, **options)
    model._again = None  # for pickling, it holds the weights a second time
    return model


def as_onnx(program: torch.export.ExportedProgram) -> tuple[bytes, Optional[int]]:
    """The bytes of the model, and the number of the GPU that its tensors lie on."""
    if program.range_constraints:
        raise ValueError("sizes must be fixed, and this program leaves some open: export it without dynamic_shapes, "
                         "once for each size")
    with torch.no_grad():
        program = program.run_decompositions(decompositions())
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
        raise ValueError(f"the module writes to {', '.join(changed)}; a model only computes results")
    weights = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        name = (signature.inputs_to_parameters.get(node.name) or signature.inputs_to_buffers.get(node.name) or
                signature.inputs_to_lifted_tensor_constants.get(node.name))
        if name is not None:
            weights[node] = program.constants[name] if name in program.constants else program.state_dict[name]
    try:
        model, places = Converter(weights).convert(program.graph)
    except Unsupported as error:
        raise NotImplementedError(f"Tessera does not convert {error}") from None
    if any(not isinstance(place, Output) for place in places):
        raise ValueError("a result of the module is one of its inputs, or no tensor")
    values = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    return model, _on_cuda(values)
