"""Quantising, by the program `tessera` that comes with this package."""
from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

from ._model import Error, PathLike
from ._tune import _said, _words, warn_of

Arrays = Mapping[str, Any]


@dataclass
class Quantised:
    """A quantised model. ``path``: the ONNX file, which :func:`compile` takes; ``cosine`` and ``top1``: how its outputs
    agree with those of the float model, None where nothing was compared; ``report``: all that `tessera quantize --json`
    prints, with the error of each layer.
    """

    path: str
    cosine: Optional[float] = None
    top1: Optional[float] = None
    report: dict[str, Any] = field(default_factory=dict, repr=False)


def quantize(model: PathLike, /, *, output: PathLike,
             calibration: Union[None, PathLike, Sequence[Union[PathLike, Arrays]]] = None,
             shapes: Optional[Mapping[str, Sequence[int]]] = None, dims: Optional[Mapping[str, int]] = None,
             keep: Sequence[str] = (), **flags: Any) -> Quantised:
    """Writes an ONNX file or "zoo:NAME" with layers in int8 to ``output`` and returns a :class:`Quantised`.

    calibration: .npz files, folders of them, dictionaries of arrays by input, or "random". keep: nodes that stay float.
    Other flags of `tessera quantize` go by name: ``scheme="int8-dynamic"``, ``method="mse"``, ``tolerance="top1=0.99"``,
    which is warned about where it does not hold.
    """
    given = [calibration] if isinstance(calibration, (str, os.PathLike)) else list(calibration or ())
    with tempfile.TemporaryDirectory(prefix="tessera-") as folder:
        paths = []
        for i, sample in enumerate(given):
            if isinstance(sample, Mapping):
                import numpy as np

                path = os.path.join(folder, f"{i:06}.npz")
                np.savez(path, **{name: np.asarray(array) for name, array in sample.items()})
            else:
                path = os.fspath(sample)
            paths.append(path)
        words = _words("quantize", model, shapes, dims, None, {"output": os.fspath(output), "json": True, **flags})
        for flag, values in (("--calibration", paths), ("--keep", list(keep))):
            if values:
                words += [flag, *values]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if not done.stdout.strip():
        raise Error(_said(done.stderr.splitlines(), "quantize", done.returncode))
    warn_of(done.stderr.splitlines())
    report = json.loads(done.stdout)
    return Quantised(report["output"], report.get("cosine"), report.get("top1"), report)
