"""PyTorch on the CPU: the nodes one by one (torch), or through torch.compile with frozen weights (torch_compile)."""
import os

import torch

from onnx_files import load_with_shapes
from onnx_to_torch import convert


class TorchModel:
    def __init__(self, job):
        torch.set_num_threads(job.threads)
        torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)
        self.inputs = [torch.from_numpy(t.array) for t in job.inputs]
        examples = {t.name: x for t, x in zip(job.inputs, self.inputs)}
        self.module = convert(load_with_shapes(job).graph, examples, [t.name for t in job.outputs])
        self.version = "PyTorch " + torch.__version__
        if job.peer == "torch_compile":
            self.version += " compiled"
            # Processes of its own would run on while others are timed.
            os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
            import torch._inductor.config as inductor
            inductor.compile_threads = 1
            inductor.freezing = True
            self.module = torch.compile(self.module)
        self.results = None

    def run(self):
        self.results = self.module(*self.inputs)

    def outputs(self):
        return [t.numpy() for t in self.results]


open_model = TorchModel
