"""PyTorch: ``torch.compile(module, backend="tessera")`` and ``tessera.from_torch``."""
from __future__ import annotations

from ._backend import backend
from ._export import from_torch

__all__ = ["backend", "from_torch"]
