"""OpenVINO on the CPU, one stream of as many threads as asked, in the precision of the model; as it comes, in bf16 where
the processor has matrix units for it."""
import openvino as ov

from driver import Refused


class OpenVinoModel:
    def __init__(self, job):
        core = ov.Core()
        model = core.read_model(job.model)
        model.reshape({t.name: list(t.shape) for t in job.inputs})
        config = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(job.threads),
            # Else it takes one thread a core, however many are asked for.
            "ENABLE_HYPER_THREADING": "YES",
        }
        # Where the processor has bf16 it would compute f32 models in it.
        if not job.as_it_comes and not any(op.get_output_element_type(0) in (ov.Type.f16, ov.Type.bf16) for op in model.get_ops()
                   if op.get_type_name() == "Constant"):
            config["INFERENCE_PRECISION_HINT"] = "f32"
        self.compiled = core.compile_model(model, "CPU", config)
        threads = int(self.compiled.get_property("INFERENCE_NUM_THREADS"))
        if threads != job.threads:
            raise Refused(f"OpenVINO takes {threads} threads here, not {job.threads}")
        self.version = "OpenVINO " + ov.__version__.split("-")[0]
        self.request = self.compiled.create_infer_request()
        for tensor in job.inputs:
            self.request.set_tensor(tensor.name, ov.Tensor(tensor.array, shared_memory=True))
        self.names = [t.name for t in job.outputs]

    def run(self):
        self.request.infer(share_outputs=True)

    def outputs(self):
        return [self.request.get_tensor(name).data.copy() for name in self.names]


open_model = OpenVinoModel
