"""What programs for ONNX Runtime set up before they make a session."""
from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any


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
        self.log_severity_level = 2
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
        self.log_severity_level = 2
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
    return (["CUDAExecutionProvider"] if _has_cuda() else []) + ["CPUExecutionProvider"]


def get_device() -> str:
    return "GPU" if _has_cuda() else "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Taken and ignored: there is no logger."""
