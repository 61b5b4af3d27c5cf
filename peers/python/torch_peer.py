"""PyTorch: the nodes one by one (torch), or through torch.compile with frozen weights (torch_compile; torch_max: with all
of its search). On a GPU the calls are captured into one CUDA graph, in the faster order of axes (channels first or last);
TF32 is off unless it is asked for, or, as PyTorch comes, on in convolutions."""
import os

import torch

from driver import undisturbed
from onnx_files import load_with_shapes
from onnx_to_torch import convert

MODES = {"torch": None, "torch_compile": "default", "torch_max": "max-autotune-no-cudagraphs"}


def compiled(module, job, mode):
    # Processes of its own would run on while others are timed.
    threads = 1 if job.device == "cpu" else int(os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", os.cpu_count()))
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
            self.compile_now()
        self.results = None

    def place(self, job):
        pass

    def compile_now(self):
        pass

    def run(self):
        self.results = self.module(*self.inputs)

    def outputs(self):
        return [t.numpy() for t in self.results]


HALF_MAX = 65504


def to_half(module):
    """Masks hold the least f32 for "never": infinite as f16, and not a number once two of them meet."""
    for buffer in module.buffers():
        if buffer.dtype == torch.float32:
            finite = torch.isfinite(buffer)
            buffer.copy_(torch.where(finite, buffer.clamp(-HALF_MAX, HALF_MAX), buffer))
    return module.half()


def captured(module, inputs):
    """The calls of `module` as a CUDA graph, and the tensors that it writes."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            module(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = module(*inputs)
    return graph, results


def replay_seconds(graph, calls):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        graph.replay()
    end.record()
    end.synchronize()
    return 1e-3 * start.elapsed_time(end)


class TorchModelOnGpu(TorchModel):
    def place(self, job):
        if not job.as_it_comes:
            torch.backends.cuda.matmul.allow_tf32 = job.dtype == "tf32"
            torch.backends.cudnn.allow_tf32 = job.dtype == "tf32"
        torch.backends.cudnn.benchmark = True
        self.half = job.dtype == "f16"
        self.module = self.module.cuda()
        self.inputs = [x.cuda() for x in self.inputs]
        if self.half:
            self.module = to_half(self.module)
            self.inputs = [x.half() if x.is_floating_point() else x for x in self.inputs]
        self.graph = None
        if any(t.dim() == 4 for t in self.module.buffers()):
            with undisturbed():
                self.order_axes()

    def compile_now(self):
        # The first call compiles, as many processes may at once; cuDNN's search follows in run(), undisturbed.
        torch.backends.cudnn.benchmark = False
        self.module(*self.inputs)
        torch.cuda.synchronize()
        torch.backends.cudnn.benchmark = True

    def order_axes(self):
        seconds = {}
        for order in (torch.contiguous_format, torch.channels_last):
            self.set_order(order)
            graph, _ = captured(self.module, self.inputs)
            replay_seconds(graph, 3)
            seconds[order] = replay_seconds(graph, 10)
        best = min(seconds, key=seconds.get)
        self.set_order(best)
        self.version += ", channels last" if best == torch.channels_last else ", channels first"

    def set_order(self, order):
        self.module = self.module.to(memory_format=order)
        self.inputs = [x.contiguous(memory_format=order) if x.dim() == 4 else x for x in self.inputs]

    def run(self):
        if self.graph is None:
            with undisturbed():
                self.graph, self.results = captured(self.module, self.inputs)
        self.graph.replay()
        torch.cuda.synchronize()

    def time(self, calls):
        return replay_seconds(self.graph, calls)

    def outputs(self):
        return [(t.float() if self.half and t.is_floating_point() else t).contiguous().cpu().numpy()
                for t in self.results]


def open_model(job):
    return TorchModel(job) if job.device == "cpu" else TorchModelOnGpu(job)
