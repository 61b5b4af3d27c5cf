"""ONNX Runtime of the Python package, for where `bench` has no module of its own."""
import onnxruntime as ort


class OrtModel:
    def __init__(self, job):
        options = ort.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        self.session = ort.InferenceSession(job.model, options, providers=["CPUExecutionProvider"])
        self.version = "ONNX Runtime " + ort.__version__
        self.binding = self.session.io_binding()
        self.inputs = [ort.OrtValue.ortvalue_from_numpy(t.array) for t in job.inputs]
        for tensor, value in zip(job.inputs, self.inputs):
            self.binding.bind_ortvalue_input(tensor.name, value)
        self.values = [ort.OrtValue.ortvalue_from_shape_and_type(t.shape, t.dtype.type) for t in job.outputs]
        for tensor, value in zip(job.outputs, self.values):
            self.binding.bind_ortvalue_output(tensor.name, value)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return [value.numpy() for value in self.values]


open_model = OrtModel
