"""IREE: the model compiled ahead of time for this processor, run by its task system."""
import importlib.metadata
import os
import subprocess
import sys
import tempfile

import iree.compiler.tools as compiler
import iree.runtime as runtime
import numpy
import onnx

from driver import Refused
from onnx_files import load_with_shapes

# Its limit of 32 KiB a function refuses the reductions of BERT.
STACK_BYTES = 1 << 18
FLAGS = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", f"--iree-llvmcpu-stack-allocation-limit={STACK_BYTES}"]


def compile_model(job, folder):
    source, imported, compiled = (os.path.join(folder, "model" + end) for end in (".onnx", ".mlir", ".vmfb"))
    onnx.save(load_with_shapes(job), source)
    done = subprocess.run([sys.executable, "-m", "iree.compiler.tools.import_onnx", source, "-o", imported],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused("its importer: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    compiler.compile_file(imported, output_file=compiled, input_type="onnx", target_backends=["llvm-cpu"],
                          extra_args=FLAGS)
    return compiled


class IreeModel:
    def __init__(self, job):
        self.version = "IREE " + importlib.metadata.version("iree-base-compiler")
        # One thread is the calling one; several are workers, while the caller sleeps.
        driver = "local-sync"
        if job.threads > 1:
            driver = "local-task"
            runtime.flags.parse_flags(f"--task_topology_group_count={job.threads}",
                                      f"--task_worker_stack_size={4 * STACK_BYTES}")
        with tempfile.TemporaryDirectory() as folder:
            compiled = compile_model(job, folder)
            config = runtime.Config(driver)
            module = runtime.VmModule.copy_buffer(config.vm_instance, open(compiled, "rb").read())
        context = runtime.SystemContext(config=config)
        context.add_vm_module(module)
        module = context.modules[module.name]
        names = [name for name in module.vm_module.function_names
                 if not name.startswith("__") and not name.endswith("$async")]
        self.function = module[names[0]]
        order = self.input_order(job)
        self.arguments = [runtime.asdevicearray(config.device, tensor.array) for tensor in order]
        self.output_positions = self.positions(job)
        self.results = None

    def input_order(self, job):
        by_name = {t.name: t for t in job.inputs}
        graph = onnx.load(job.model, load_external_data=False).graph
        constants = {t.name for t in graph.initializer}
        return [by_name[v.name] for v in graph.input if v.name not in constants]

    def positions(self, job):
        names = [v.name for v in onnx.load(job.model, load_external_data=False).graph.output]
        return [names.index(t.name) for t in job.outputs]

    def run(self):
        self.results = self.function(*self.arguments)

    def outputs(self):
        results = self.results if isinstance(self.results, (tuple, list)) else [self.results]
        return [numpy.asarray(results[i].to_host()) for i in self.output_positions]


open_model = IreeModel
