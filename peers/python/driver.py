"""Runs an ONNX model in one library for `tessera bench --peers`, in a process of its own.

usage: driver.py PEER, with the socket of tessera/app/bench/peer_wire.h as standard input

A peer is a module `<name>_peer.py` whose `open_model(job)` returns an object with `version`, `run()`, one
inference from the inputs it was opened with, and `outputs()`, arrays in the order of `job.outputs`. One that runs on a
GPU also has `time(calls)`, the seconds of that many inferences by the clock of the device.

Many runs can be prepared side by side and timed one after the other: see Gate.
"""
import contextlib
import fcntl
import gc
import importlib
import json
import os
import socket
import struct
import sys
import time
import traceback

# name: its module. NAME_default is the same library as it comes, where that computes f32 models in fewer bits.
PEERS = {
    "iree": "iree_peer",
    "litert": "litert_peer",
    "openvino": "openvino_peer",
    "ort": "ort_peer",
    "torch": "torch_peer",
    "torch_compile": "torch_peer",
    "torch_max": "torch_peer",
    "tvm": "tvm_peer",
    "xla": "xla_peer",
}
ON_GPUS = ("torch", "torch_compile", "torch_max", "xla")
AS_IT_COMES = "_default"
# The types of Tessera by their names in NumPy; bf16 is there with ml_dtypes alone.
DTYPES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
}
GREETING, REQUEST, REPLY = struct.Struct("=iiQ"), struct.Struct("=ii"), struct.Struct("=dddq")


class Tensor:
    def __init__(self, description):
        self.name = description["name"]
        self.shape = tuple(description["shape"])
        self.dtype = numpy_dtype(description["dtype"])
        self.array = None


class Job:
    def __init__(self, text):
        fields = json.loads(text)
        self.model, self.threads = fields["model"], fields["threads"]
        self.as_it_comes = fields["peer"].endswith(AS_IT_COMES)
        self.peer = fields["peer"].removesuffix(AS_IT_COMES)
        self.device, self.dtype = fields.get("device", "cpu"), fields.get("dtype", "f32")
        self.codes = fields["codes"]
        self.fields = fields

    def describe_tensors(self):
        self.inputs = [Tensor(t) for t in self.fields["inputs"]]
        self.outputs = [Tensor(t) for t in self.fields["outputs"]]


class Refused(Exception):
    """The library cannot run this model."""


class Absent(Exception):
    """Something to run it with is not installed."""


class Gate:
    """Holds a driver back while other work runs. Where the environment has TESSERA_PEERS_GATE, a folder for each run, a
    driver writes PEER.prepare there before it opens its model and PEER.time before it answers, and waits at each for as
    long as PEER.prepare.hold or PEER.time.hold exists."""

    POLL_S = 0.05

    def __init__(self, peer):
        self.folder, self.peer = os.environ.get("TESSERA_PEERS_GATE"), peer

    def pass_through(self, step):
        if not self.folder:
            return
        mark = os.path.join(self.folder, f"{self.peer}.{step}")
        open(mark, "w").close()
        while os.path.exists(mark + ".hold"):
            time.sleep(self.POLL_S)


@contextlib.contextmanager
def undisturbed():
    """For what a library decides by timing: one process at a time of all whose gates lie in one folder."""
    folder = os.environ.get("TESSERA_PEERS_GATE")
    if not folder:
        yield
        return
    with open(os.path.join(os.path.dirname(os.path.abspath(folder)), "lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def numpy_dtype(name):
    import numpy
    if name == "bf16":
        import ml_dtypes
        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(DTYPES[name])


def receive(channel, size):
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = channel.recv_into(view)
        if count == 0:
            sys.exit(0)
        view = view[count:]
    return data


def receive_job(channel):
    (length,) = struct.unpack("=Q", receive(channel, 8))
    return Job(receive(channel, length))


def receive_inputs(channel, job):
    import numpy
    for tensor in job.inputs:
        count = 1
        for size in tensor.shape:
            count *= size
        data = receive(channel, count * tensor.dtype.itemsize)
        # Copied, for memory that is aligned as NumPy aligns it.
        tensor.array = numpy.frombuffer(data, tensor.dtype).reshape(tensor.shape).copy()


def open_peer(job):
    # Only what was asked for runs threads; before the libraries read these.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(job.threads)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's own
    if job.device != "cpu" and job.peer not in ON_GPUS:
        raise Refused("it runs on the CPU here; on CUDA devices: " + ", ".join(ON_GPUS))
    if job.device not in ("cpu", "cuda"):
        raise Refused(f"it does not run on {job.device} devices")
    return importlib.import_module(PEERS[job.peer]).open_model(job)


def first_outputs(peer, job):
    import numpy
    peer.run()
    # asarray leaves numbers without axes; ascontiguousarray gives them one.
    arrays = [numpy.asarray(a, order="C") for a in peer.outputs()]
    for array, want in zip(arrays, job.outputs):
        if array.shape != want.shape or array.dtype != want.dtype:
            raise Refused(f"its output {want.name} is {array.dtype} {list(array.shape)}, "
                          f"not {want.dtype} {list(want.shape)}")
    return arrays


class RunQueueClock:
    """Seconds that the threads of this process waited for a core since the last call."""

    def __init__(self):
        self.last = self.waits()

    @staticmethod
    def waits():
        waits = {}
        for thread in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{thread}/schedstat") as file:
                    waits[thread] = int(file.read().split()[1])
            except (OSError, IndexError):
                pass  # it ended meanwhile, or the kernel keeps no statistics
        return waits

    def elapsed(self):
        now = self.waits()
        total = sum(wait - self.last.get(thread, 0) for thread, wait in now.items())
        self.last = now
        return max(total, 0) * 1e-9


def serve(channel, peer):
    clock = RunQueueClock()
    gc.collect()
    gc.disable()
    run = peer.run
    on_device = getattr(peer, "time", None)
    while True:
        calls, warm = REQUEST.unpack(receive(channel, REQUEST.size))
        late = clock.elapsed()
        if warm:
            run()
            clock.elapsed()
        if on_device:
            total = on_device(calls)
        else:
            start = time.perf_counter()
            for _ in range(calls):
                run()
            total = time.perf_counter() - start
        channel.sendall(REPLY.pack(total, clock.elapsed(), late, 1))


def greet(channel, code, text):
    data = text.encode()[:4000]
    channel.sendall(GREETING.pack(1 if code is None else 0, code or 0, len(data)) + data)


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def prepared(channel, job):
    """The peer and its first outputs, or the code and the reason why there are none."""
    try:
        job.describe_tensors()
        receive_inputs(channel, job)
        peer = open_peer(job)
        return peer, first_outputs(peer, job), None
    except ImportError as error:
        reason = f"no module {error.name}" if isinstance(error, ModuleNotFoundError) else first_line(error)
        flag = " --torch" if job.peer in ("torch", "torch_compile", "torch_max", "litert") else ""
        return None, [], ("unavailable", f"{reason}; ./do peers{flag} installs it")
    except Absent as error:
        return None, [], ("unavailable", str(error))
    except Refused as error:
        return None, [], ("unsupported", str(error))
    except Exception as error:  # whatever the library throws about a model it does not take
        traceback.print_exc()
        return None, [], ("unsupported", first_line(error))


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    channel = socket.socket(fileno=os.dup(0))
    job = receive_job(channel)
    gate = Gate(job.fields["peer"])
    gate.pass_through("prepare")
    peer, arrays, failure = prepared(channel, job)
    gate.pass_through("time")
    if failure:
        return greet(channel, job.codes[failure[0]], failure[1])
    greet(channel, None, peer.version + (", as it comes" if job.as_it_comes else ""))
    for array in arrays:
        channel.sendall(array.tobytes())
    serve(channel, peer)


if __name__ == "__main__":
    # Peers import this file as `driver`: one module, whichever name it was started by.
    sys.modules["driver"] = sys.modules["__main__"]
    main()
