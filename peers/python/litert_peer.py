"""LiteRT with XNNPACK. Its models come from PyTorch's: there is no converter of ONNX files that needs less."""
import importlib.metadata
import os
import tempfile

import litert_torch
import torch
from ai_edge_litert.interpreter import Interpreter

from onnx_files import load_with_shapes
from onnx_to_torch import convert


class LiteRtModel:
    def __init__(self, job):
        self.version = "LiteRT " + importlib.metadata.version("ai-edge-litert")
        self.interpreter = Interpreter(model_content=flatbuffer(job), num_threads=job.threads)
        self.interpreter.allocate_tensors()
        signature = self.interpreter.get_signature_runner()
        inputs, outputs = signature.get_input_details(), signature.get_output_details()
        for i, tensor in enumerate(job.inputs):
            details = inputs[f"args_{i}"]  # int64 became int32
            self.interpreter.set_tensor(details["index"], tensor.array.astype(details["dtype"]))
        self.indices = [outputs[f"output_{i}"]["index"] for i in range(len(job.outputs))]

    def run(self):
        self.interpreter.invoke()

    def outputs(self):
        return [self.interpreter.get_tensor(i) for i in self.indices]


def flatbuffer(job):
    torch.set_num_threads(job.threads)
    torch.set_grad_enabled(False)
    examples = {t.name: torch.from_numpy(t.array) for t in job.inputs}
    module = convert(load_with_shapes(job).graph, examples, [t.name for t in job.outputs])
    converted = litert_torch.convert(module, tuple(examples.values()))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        converted.export(path)
        with open(path, "rb") as file:
            return file.read()


open_model = LiteRtModel
