"""XLA through JAX, its own search for kernels on. f32 is f32: TF32 only where it is asked for, or as JAX comes."""
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory of the device too

import jax
import numpy

from driver import Absent, undisturbed
from onnx_files import load_with_shapes
from onnx_to_jax import Program


class XlaModel:
    def __init__(self, job):
        jax.config.update("jax_enable_x64", True)
        if "TESSERA_PEERS_CACHE" in os.environ:
            jax.config.update("jax_compilation_cache_dir", os.path.join(os.environ["TESSERA_PEERS_CACHE"], "xla"))
        platform = "gpu" if job.device == "cuda" else "cpu"
        try:
            device = jax.devices(platform)[0]
        except RuntimeError as error:
            raise Absent(f"JAX has no {platform} here") from error
        self.version = "JAX " + jax.__version__
        self.half = job.dtype == "f16"
        if not self.half and not job.as_it_comes:
            precision = "tensorfloat32" if job.dtype == "tf32" else "highest"
            jax.config.update("jax_default_matmul_precision", precision)
        program = Program(load_with_shapes(job).graph, [t.name for t in job.inputs], [t.name for t in job.outputs],
                          numpy.dtype("float16" if self.half else "float32"))
        # Arguments, not constants: as fast or faster (BERT-base in f16: 0.585 ms, as constants 0.641).
        self.weights = jax.device_put(program.weights, device)
        inputs = [t.array.astype("float16") if self.half and t.array.dtype == numpy.float32 else t.array
                  for t in job.inputs]
        self.inputs = jax.device_put(inputs, device)
        lowered = jax.jit(program).lower(self.weights, self.inputs)
        with undisturbed():
            self.call = lowered.compile()
        self.results = None
        if job.device == "cuda":
            self.time = self.pipelined

    def run(self):
        self.results = jax.block_until_ready(self.call(self.weights, self.inputs))

    def pipelined(self, calls):
        """One call after the other without waiting for each: what the host does between them is hidden. Many, so that the
        wait for the last one does not count."""
        many = max(calls, 64)
        start = time.perf_counter()
        for _ in range(many):
            self.results = self.call(self.weights, self.inputs)
        jax.block_until_ready(self.results)
        return (time.perf_counter() - start) * calls / many

    def outputs(self):
        arrays = [numpy.asarray(a) for a in self.results]
        return [a.astype("float32") if self.half and a.dtype == numpy.float16 else a for a in arrays]


def open_model(job):
    if job.device == "cpu":
        # One thread for each that was asked for; XLA reads this when its client starts.
        os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                                   f" --xla_cpu_multi_thread_eigen={'true' if job.threads > 1 else 'false'}")
        os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:job.threads]))
    return XlaModel(job)
