"""What programs for ONNX Runtime set up before they make a session."""
from __future__ import annotations

import ctypes
import warnings
from enum import IntEnum
from typing import Any, Mapping, Optional, Sequence

_GPU, _CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


class GraphOptimizationLevel(IntEnum):
    """Taken and ignored: Tessera always optimizes, and its results differ in rounding only."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Taken and ignored: every kernel is shared among all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class SessionOptions:
    """As ``onnxruntime.SessionOptions``. ``intra_op_num_threads`` and overrides of free dimensions count; whatever
    else is set is kept and has no effect.
    """

    def __init__(self) -> None:
        self.intra_op_num_threads = 0
        self.inter_op_num_threads = 0
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.optimized_model_filepath = ""
        self.enable_mem_pattern = self.enable_mem_reuse = self.enable_cpu_mem_arena = True
        self.use_deterministic_compute = False
        self.logid = ""
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self._dims: dict[str, int] = {}
        self._entries: dict[str, str] = {}

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        self._dims[name] = size

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        return self._entries[key]

    def register_custom_ops_library(self, path: str) -> None:
        raise NotImplementedError("Tessera runs no operators of ONNX Runtime's libraries")


class RunOptions:
    """As ``onnxruntime.RunOptions``: taken and ignored."""

    def __init__(self) -> None:
        self.logid = ""
        self.log_severity_level = 2
        self.log_verbosity_level = 0
        self._entries: dict[str, Any] = {}

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._entries[key] = value


def _has_cuda() -> bool:
    try:
        count = ctypes.c_int(0)
        cuda = ctypes.CDLL("libcuda.so.1")
        return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (AttributeError, OSError):
        return False


def get_available_providers() -> list[str]:
    """Names that `InferenceSession(providers=...)` tells apart: that of GPUs where there is one, and of processors."""
    return ([_GPU] if _has_cuda() else []) + [_CPU]


def get_all_providers() -> list[str]:
    """Those that there are on some machine."""
    return [_GPU, _CPU]


def chosen_provider(providers: Optional[Sequence[Any]],
                    options: Optional[Sequence[Any]]) -> tuple[bool, Mapping[str, Any]]:
    """Whether the first of them that is here means a GPU, and its options. As ONNX Runtime does, those that are not here
    are passed over with a warning, and a processor is always there in the end.
    """
    for i, provider in enumerate(providers or ()):
        name, settings = provider if isinstance(provider, tuple) else (provider, (options or {i: {}})[i])
        if name in (_GPU, "TensorrtExecutionProvider") and _has_cuda():
            return True, settings or {}
        if name in (_CPU, "TesseraExecutionProvider"):
            break
        warnings.warn(f"provider {name!r} is not available and is passed over; available are: "
                      f"{', '.join(get_available_providers())}", stacklevel=3)
    return False, {}


def get_device() -> str:
    return "GPU" if _has_cuda() else "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Taken and ignored: there is no logger."""
