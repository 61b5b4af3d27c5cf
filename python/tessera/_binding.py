"""Inputs and outputs that are bound once: `InferenceSession.io_binding`."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional, Sequence

if TYPE_CHECKING:
    from ._session import InferenceSession

_ORT_TYPES = {"float32": "float", "float64": "double"}  # where they are not NumPy's


def _on_cpu(device_type: str) -> None:
    if device_type != "cpu":
        raise NotImplementedError(f"memory of {device_type} is bound as a tensor: give run() PyTorch's, which stay there")


class OrtValue:
    """A tensor, as ``onnxruntime.OrtValue``: an array, or a tensor of PyTorch, JAX or CuPy."""

    def __init__(self, data: Any) -> None:
        self._data = data

    @staticmethod
    def ortvalue_from_numpy(array: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        import numpy

        _on_cpu(device_type)
        return OrtValue(numpy.asarray(array))

    @staticmethod
    def ortvalue_from_shape_and_type(shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0) -> OrtValue:
        import numpy

        _on_cpu(device_type)
        return OrtValue(numpy.zeros(tuple(shape), element_type))

    def numpy(self) -> Any:
        import numpy

        return numpy.asarray(self._data)

    def shape(self) -> list[int]:
        return list(self._data.shape)

    def data_type(self) -> str:
        name = str(self.numpy().dtype)
        return f"tensor({_ORT_TYPES.get(name, name)})"

    def data_ptr(self) -> int:
        return int(self.numpy().ctypes.data)

    def device_name(self) -> str:
        return "cpu"

    def is_tensor(self) -> bool:
        return True

    def has_value(self) -> bool:
        return True

    def update_inplace(self, array: Any) -> None:
        self.numpy()[...] = array


def _at(pointer: int, shape: Sequence[int], element_type: Any) -> Any:
    import numpy

    dtype = numpy.dtype(element_type)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer)
    return numpy.frombuffer(memory, dtype, count).reshape(tuple(shape))


class IOBinding:
    """As ``onnxruntime.IOBinding``, for memory of the processor."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._wanted: dict[str, Any] = {}  # None: memory is made by the run
        self._outputs: list[OrtValue] = []

    def bind_cpu_input(self, name: str, array: Any) -> None:
        self._inputs[name] = array

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        _on_cpu(device_type)
        self._inputs[name] = _at(buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._inputs[name] = ortvalue._data

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Optional[Sequence[int]] = None, buffer_ptr: Optional[int] = None) -> None:
        _on_cpu(device_type)
        bound = buffer_ptr is not None and shape is not None
        self._wanted[name] = _at(buffer_ptr, shape, element_type) if bound else None  # type: ignore[arg-type]

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._wanted[name] = ortvalue._data

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: a run reads memory of the processor."""

    synchronize_outputs = synchronize_inputs

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._wanted.clear()

    def get_outputs(self) -> list[OrtValue]:
        return list(self._outputs)

    def copy_outputs_to_cpu(self) -> list[Any]:
        return [value.numpy() for value in self._outputs]

    def _run(self) -> None:
        names = list(self._wanted) or [node.name for node in self._session.get_outputs()]
        results = self._session.run(names, self._inputs)
        for i, name in enumerate(names):
            place = self._wanted.get(name)
            if place is not None:
                if tuple(place.shape) != tuple(results[i].shape):
                    raise ValueError(f"output {name!r} is {tuple(results[i].shape)}, bound is {tuple(place.shape)}")
                place[...] = results[i]
                results[i] = place
        self._outputs = [OrtValue(result) for result in results]
