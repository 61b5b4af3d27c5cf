"""ONNX files as the peers need them."""
import onnx


class Handlers(dict):
    """What computes each operator; `@handlers(NAME, ...)` adds a function."""

    def __call__(self, *names):
        def register(function):
            self.update(dict.fromkeys(names, function))
            return function
        return register


def load_with_shapes(job):
    """The model with its inputs of the shapes that are timed, where the file leaves dimensions open."""
    model = onnx.load(job.model)
    shapes = {t.name: t.shape for t in job.inputs}
    fixed = False
    for value in model.graph.input:
        if value.name not in shapes:
            continue
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes[value.name]):
            if not dim.HasField("dim_value"):
                dim.dim_value = size
                fixed = True
    if fixed:  # what was inferred before is of open dimensions
        del model.graph.value_info[:]
        outputs = {t.name: t.shape for t in job.outputs}
        for value in model.graph.output:
            for dim, size in zip(value.type.tensor_type.shape.dim, outputs.get(value.name, ())):
                dim.dim_value = size
    return model
