"""PyTorch: the nodes one by one (torch), or through torch.compile with frozen weights (torch_compile; torch_max: with all
of its search). On a GPU the calls are captured into one CUDA graph; TF32 is off unless it is asked for."""
import os

import torch

from onnx_files import load_with_shapes
from onnx_to_torch import convert

MODES = {"torch": None, "torch_compile": "default", "torch_max": "max-autotune-no-cudagraphs"}


def compiled(module, job, mode):
    # Processes of its own would run on while others are timed.
    threads = 1 if job.device == "cpu" else os.cpu_count()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(threads)
    import torch._inductor.config as inductor
    inductor.compile_threads = threads
    inductor.freezing = True
    return torch.compile(module, mode=mode)


class TorchModel:
    def __init__(self, job):
        torch.set_num_threads(job.threads)
        torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)
        self.inputs = [torch.from_numpy(t.array) for t in job.inputs]
        examples = {t.name: x for t, x in zip(job.inputs, self.inputs)}
        self.module = convert(load_with_shapes(job).graph, examples, [t.name for t in job.outputs])
        self.version = "PyTorch " + torch.__version__
        self.place(job)
        if MODES[job.peer]:
            self.version += " compiled" if job.peer == "torch_compile" else " compiled, max-autotune"
            self.module = compiled(self.module, job, MODES[job.peer])
        self.results = None

    def place(self, job):
        pass

    def run(self):
        self.results = self.module(*self.inputs)

    def outputs(self):
        return [t.numpy() for t in self.results]


class TorchModelOnGpu(TorchModel):
    def place(self, job):
        torch.backends.cuda.matmul.allow_tf32 = job.dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = job.dtype == "tf32"
        torch.backends.cudnn.benchmark = True
        self.half = job.dtype == "f16"
        self.module = self.module.cuda()
        self.inputs = [x.cuda() for x in self.inputs]
        if self.half:
            self.module = self.module.half()
            self.inputs = [x.half() if x.is_floating_point() else x for x in self.inputs]
        self.graph = None

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.module(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.results = self.module(*self.inputs)

    def run(self):
        if self.graph is None:
            self.capture()
        self.graph.replay()
        torch.cuda.synchronize()

    def time(self, calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            self.graph.replay()
        end.record()
        end.synchronize()
        return 1e-3 * start.elapsed_time(end)

    def outputs(self):
        return [(t.float() if self.half and t.is_floating_point() else t).cpu().numpy() for t in self.results]


def open_model(job):
    return TorchModel(job) if job.device == "cpu" else TorchModelOnGpu(job)
