"""tessera.compile, load, Model and Session on NumPy arrays."""
import json
import os
import pickle
import subprocess
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np
import tessera
from tessera import _session
from tessera._options import chosen_provider


def mlp_file(folder):
    path = os.path.join(folder, "mlp.onnx")
    subprocess.run([tessera.program(), "zoo", "--export", "mlp", "--output", path], check=True, capture_output=True)
    return path


def digest_of_run(model):
    """Of the kernels that `tessera run` makes of a model."""
    command = [tessera.program(), "run", model, "--random", "--threads", "1", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["plan_digest"]


class SameCodeTest(unittest.TestCase):
    def test_every_way_gives_the_code_of_the_program(self):
        class Options:
            intra_op_num_threads = 1

        models = ["zoo:mlp", "zoo:mlp@dtype=f16", "zoo:mlp@quant=qdq", "zoo:resnet18@quant=qdq,size=32,classes=10"]
        for model in models:
            with self.subTest(model=model), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.onnx")
                subprocess.run([tessera.program(), "zoo", "--export", model[4:], "--output", path], check=True,
                               capture_output=True)
                with open(path, "rb") as file:
                    content = file.read()
                want = digest_of_run(model)
                self.assertEqual(tessera.compile(model, threads=1).plan_digest, want)
                self.assertEqual(tessera.compile(path, threads=1).plan_digest, want)
                self.assertEqual(tessera.compile(content, threads=1).plan_digest, want)
                for source in (path, content):
                    session = tessera.InferenceSession(source, Options())
                    self.assertEqual([m.plan_digest for m in session._models.values()], [want])


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tessera.compile("zoo:mlp", threads=1)
        cls.x = np.random.default_rng(1).random((1, 784), np.float32)
        cls.y = cls.model(cls.x)

    def test_describes_itself(self):
        self.assertEqual(self.model.inputs, (tessera.TensorInfo("input", "f32", (1, 784)),))
        self.assertEqual(repr(self.model), "<tessera.Model (input: f32[1, 784]) -> (output: f32[1, 10])>")
        self.assertRegex(tessera.__version__, r"^\d+\.\d+\.\d+$")

    def test_other_floats_where_the_machine_multiplies_them(self):
        with self.assertRaisesRegex(tessera.Error, "haswell has no instructions that multiply it"):
            tessera.compile("zoo:mlp", target="haswell", dtype="bf16")
        model = tessera.compile("zoo:mlp", target="sapphirerapids", dtype="bf16")
        self.assertEqual(model.inputs, self.model.inputs)

    def test_by_position_name_and_dict(self):
        self.assertEqual(self.y.shape, (1, 10))
        self.assertEqual(self.y.dtype, np.float32)
        np.testing.assert_array_equal(self.model(input=self.x), self.y)
        np.testing.assert_array_equal(self.model.run({"input": self.x})["output"], self.y)

    def test_inputs_with_names_of_parameters(self):
        for name in ("out", "self", "inputs"):
            model = tessera.compile(symbolic_model(name.encode()), dims={"rows": 1}, threads=1)
            x = np.array([[1, -2, 3]], np.float32)
            np.testing.assert_array_equal(model.run({name: x})["y"], np.abs(x))

    def test_writes_where_it_is_told(self):
        out = np.zeros((1, 10), np.float32)
        self.assertIs(self.model(self.x, out=out), out)
        np.testing.assert_array_equal(out, self.y)
        wide = np.zeros((1, 20), np.float32)
        self.model(self.x, out=wide[:, ::2])
        np.testing.assert_array_equal(wide[:, ::2], self.y)
        out.setflags(write=False)
        with self.assertRaises((ValueError, BufferError)):
            self.model(self.x, out=out)

    def test_takes_strides_lists_and_read_only_arrays(self):
        wide = np.zeros((1, 784 * 2), np.float32)
        wide[:, ::2] = self.x
        np.testing.assert_array_equal(self.model(wide[:, ::2]), self.y)
        np.testing.assert_array_equal(self.model(self.x.tolist()), self.y)
        fixed = self.x.copy()
        fixed.setflags(write=False)
        np.testing.assert_array_equal(self.model(fixed), self.y)

    def test_every_call_makes_outputs_of_its_own(self):
        session = self.model.session(1)
        first, second = session(self.x), session(self.x)
        np.testing.assert_array_equal(first, second)
        self.assertFalse(np.shares_memory(first, second))
        with self.assertRaisesRegex(TypeError, "takes 1 inputs"):
            session(self.x, self.x)

    def test_says_what_is_wrong(self):
        with self.assertRaisesRegex(tessera.Error, "input 'input' must have shape 1x784, not 1x3"):
            self.model(self.x[:, :3])
        with self.assertRaisesRegex(tessera.Error, "'input' must be f32, not f64$") as raised:
            self.model(self.x.astype(np.float64))
        self.assertEqual(raised.exception.code, 1)
        with self.assertRaisesRegex(TypeError, "takes 1 inputs .input., 2 given"):
            self.model(self.x, self.x)
        with self.assertRaisesRegex(TypeError, "no input 'x'; inputs are: input"):
            self.model(x=self.x)
        with self.assertRaisesRegex(TypeError, "__dlpack__"):
            self.model(self.x, out=object())
        with self.assertRaisesRegex(FileNotFoundError, "nonexistent"):
            tessera.compile("/nonexistent.onnx")
        with self.assertRaisesRegex(FileNotFoundError, "nonexistent"):
            tessera.load("/nonexistent")
        with self.assertRaisesRegex(tessera.Error, "h300"):
            tessera.compile("zoo:mlp", target="h300")
        with self.assertRaises(ValueError):
            self.model.save("/tmp/x", emit="exe")

    def test_many_threads(self):
        wrong = []

        def work(run):
            for _ in range(50):
                if not np.array_equal(run(self.x), self.y):
                    wrong.append(1)

        threads = [threading.Thread(target=work, args=(run,))
                   for run in (self.model, self.model, self.model.session(1), self.model.session(1))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_files_bytes_and_artifacts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = mlp_file(folder)
            with open(path, "rb") as file:
                content = file.read()
            for source in (path, content):
                np.testing.assert_allclose(tessera.compile(source)(self.x), self.y, rtol=1e-5)
            self.model.save(os.path.join(folder, "out"), name="net", weights="file")
            self.assertEqual(sorted(os.listdir(os.path.join(folder, "out"))),
                             ["libnet.so", "net.h", "net.json", "net.safetensors", "netConfig.cmake"])
            loaded = tessera.load(os.path.join(folder, "out"), threads=1)
            np.testing.assert_allclose(loaded(self.x), self.y, rtol=1e-5)
            with self.assertRaisesRegex(tessera.Error, "copy its folder"):
                loaded.save(os.path.join(folder, "again"))


    def test_batches_and_values(self):
        self.assertEqual(tessera.compile("zoo:mlp", batch=3, threads=1).inputs[0].shape, (3, 784))
        self.assertEqual(tessera.compile(symbolic_model(), batch=2, threads=1).inputs[0].shape, (2, 3))
        for value in ([[1, -2, 3]], np.array([[1, -2, 3]], np.float32), "[1,-2,3]"):
            model = tessera.compile(symbolic_model(), batch=1, values={"x": value}, threads=1)
            self.assertEqual(model.inputs, ())
            np.testing.assert_array_equal(model(), [[1, 2, 3]])
        with self.assertRaisesRegex(tessera.Error, "no input 'z'"):
            tessera.compile(symbolic_model(), batch=1, values={"z": True})

    def test_errors_speak_python(self):
        with self.assertRaisesRegex(tessera.Error, 'set them with dims={"width": SIZE}$') as raised:
            tessera.compile(two_inputs_model(b"width", b"width"))
        self.assertEqual(raised.exception.code, 1)
        with self.assertRaisesRegex(tessera.Error, 'dims={"left": SIZE, "right": SIZE}$'):
            tessera.compile(two_inputs_model(b"left", b"right"))
        with self.assertRaisesRegex(tessera.Error, "^batch=5: no input .* with shapes=$"):
            tessera.compile(two_inputs_model(b"width", b"width"), batch=5)
        from tessera._words import in_python

        self.assertEqual(in_python("set it with --shape a:b:3xSIZE"), 'set it with shapes={"a:b": (3, SIZE)}')
        self.assertEqual(in_python("steps; --max-loop-steps N allows more"),
                         "steps; `tessera run --max-loop-steps N` allows more")
        self.assertEqual(in_python("--shape x:5 or --weights file"), 'shapes={"x": (5,)} or weights="file"')
        self.assertEqual(in_python("or --target x86-64-v3."), 'or target="x86-64-v3".')

    def test_models_go_to_other_processes(self):
        again = pickle.loads(pickle.dumps(self.model))
        np.testing.assert_array_equal(again(self.x), self.y)
        self.assertEqual(again.plan_digest, self.model.plan_digest)
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(folder + "/out", name="net")
            loaded = pickle.loads(pickle.dumps(tessera.load(folder + "/out", threads=1)))
            np.testing.assert_allclose(loaded(self.x), self.y, rtol=1e-5)
        self.assertIn("Session of <tessera.Model", repr(self.model.session(1)))
        self.assertFalse(hasattr(tessera, "annotations"))


class SessionTest(unittest.TestCase):
    """The stand-in for ONNX Runtime's class."""

    def test_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            session = tessera.InferenceSession(mlp_file(folder), providers=["CPUExecutionProvider"])
            x = np.ones((1, 784), np.float32)
            name = session.get_inputs()[0].name
            self.assertEqual(session.get_inputs()[0], ("input", [1, 784], "tensor(float)"))
            self.assertEqual(session.get_outputs()[0].shape, [1, 10])
            everything = session.run(None, {name: x})
            self.assertEqual([y.shape for y in everything], [(1, 10)])
            np.testing.assert_array_equal(session.run(["output"], {name: x})[0], everything[0])
            with self.assertRaisesRegex(ValueError, "no output 'logits'; outputs are: output"):
                session.run(["logits"], {name: x})
            with self.assertRaisesRegex(ValueError, "input 'input' is missing"):
                session.run(None, {})

    def test_open_shapes_are_compiled_when_they_come(self):
        session = tessera.InferenceSession(symbolic_model())
        self.assertEqual(session.get_inputs(), [("x", ["rows", 3], "tensor(float)")])
        self.assertEqual(session.get_outputs(), [("y", ["rows", 3], "tensor(float)")])
        for rows in (2, 5, 2):
            x = np.arange(-4, 3 * rows - 4, dtype=np.float32).reshape(rows, 3)
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.abs(x))
        with self.assertRaisesRegex(ValueError, "no input 'z'; inputs are: x"):
            session.run(None, {"x": x, "z": x})

    def test_outputs_whose_type_the_file_leaves_out(self):
        session = tessera.InferenceSession(symbolic_model(says_output=False))
        self.assertEqual(session.get_outputs(), [("y", [], "tensor(?)")])

    def test_scripts_for_onnx_runtime(self):
        ort = tessera
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_free_dimension_override_by_name("rows", 2)
        self.assertIn("CPUExecutionProvider", ort.get_available_providers())
        session = ort.InferenceSession(symbolic_model(), options, providers=ort.get_available_providers()[-1:])
        self.assertIs(session.get_session_options(), options)
        self.assertEqual(session.get_inputs()[0].shape, [2, 3])
        self.assertEqual(session.get_outputs()[0].shape, [2, 3])
        meta = session.get_modelmeta()
        self.assertEqual((meta.graph_name, meta.producer_name, meta.custom_metadata_map), ("abs", "pen", {"k": "v"}))
        x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
        np.testing.assert_array_equal(session.run(["y"], {"x": x}, ort.RunOptions())[0], np.abs(x))
        self.assertIn("1 compiled", repr(session))
        self.assertEqual(session.get_overridable_initializers(), [])

    def test_providers_that_are_not_here_are_passed_over(self):
        x = np.array([[1, -2, 3]], np.float32)
        here = mock.patch("tessera._options._has_cuda", return_value=False)
        for providers in (["CUDAExecutionProvider", "CPUExecutionProvider"], ["TensorrtExecutionProvider"],
                          [("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"]):
            with self.subTest(providers=providers), here:
                with self.assertWarnsRegex(UserWarning, "ExecutionProvider' is not available .*: CPUExecutionProvider$"):
                    session = tessera.InferenceSession(symbolic_model(), providers=providers)
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.abs(x))
                self.assertEqual(session.get_provider_options(), {"TesseraExecutionProvider": {}})
        with mock.patch("tessera._options._has_cuda", return_value=True):
            for providers, options in ((["CPUExecutionProvider", "CUDAExecutionProvider"], None),
                                       (["TesseraExecutionProvider"], [{"device_id": 1}])):
                self.assertEqual(chosen_provider(providers, options), (False, {}))
            self.assertEqual(chosen_provider(["CUDAExecutionProvider"], [{"device_id": 1}]), (True, {"device_id": 1}))
            with self.assertWarnsRegex(UserWarning, "'DmlExecutionProvider' is not available"):
                self.assertEqual(chosen_provider(["DmlExecutionProvider", "CUDAExecutionProvider"], None), (True, {}))
        self.assertEqual(tessera.get_all_providers(), ["CUDAExecutionProvider", "CPUExecutionProvider"])

    def test_options_that_scripts_set(self):
        options = tessera.SessionOptions()
        for name in ("enable_mem_pattern", "enable_mem_reuse", "enable_cpu_mem_arena"):
            self.assertIs(getattr(options, name), True, name)
        self.assertEqual((options.log_verbosity_level, tessera.RunOptions().log_verbosity_level), (0, 0))
        self.assertEqual(options.optimized_model_filepath, "")
        options.optimized_model_filepath = "/tmp/optimized.onnx"
        with self.assertWarnsRegex(UserWarning, "^optimized_model_filepath: Tessera writes no optimized model"):
            session = tessera.InferenceSession(symbolic_model(), options)
        self.assertEqual(session.end_profiling(), "")

    def test_numbers_and_lists_have_the_declared_type(self):
        session = tessera.InferenceSession(symbolic_model())
        np.testing.assert_array_equal(session.run(None, {"x": [[1, -2, 3], [4, 5, -6]]})[0], [[1, 2, 3], [4, 5, 6]])
        with self.assertRaisesRegex(ValueError, "could not convert string"):
            session.run(None, {"x": ["one"]})
        node = tessera.NodeArg("x", [2], "tensor(int64)")
        self.assertEqual(_session._array([1, 2], node).dtype, np.int64)
        self.assertEqual(_session._array(1.5, node._replace(type="tensor(double)")).dtype, np.float64)
        with self.assertRaisesRegex(TypeError, "NumPy has no bfloat16: give input 'x'"):
            _session._array([1], node._replace(type="tensor(bfloat16)"))

    def test_bound_inputs_and_outputs(self):
        session = tessera.InferenceSession(symbolic_model())
        x = np.array([[1, -2, 3]], np.float32)
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.abs(x))
        y = np.zeros((1, 3), np.float32)
        binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, np.abs(x))
        place = tessera.OrtValue.ortvalue_from_shape_and_type([1, 3], np.float32)
        binding.bind_ortvalue_input("x", tessera.OrtValue.ortvalue_from_numpy(2 * x))
        binding.bind_ortvalue_output("y", place)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(place.numpy(), np.abs(2 * x))
        self.assertEqual((place.shape(), place.data_type(), place.device_name()), ([1, 3], "tensor(float)", "cpu"))
        values = session.run_with_ort_values(None, {"x": tessera.OrtValue.ortvalue_from_numpy(x)})
        np.testing.assert_array_equal(values[0].numpy(), np.abs(x))
        binding.bind_output("y", "cpu", 0, np.float32, (2, 3), np.zeros((2, 3), np.float32).ctypes.data)
        with self.assertRaisesRegex(ValueError, "output 'y' is"):
            session.run_with_iobinding(binding)
        with self.assertRaisesRegex(NotImplementedError, "memory of cuda"):
            binding.bind_output("y", "cuda")

    def test_plans_and_values_of_sessions(self):
        session = tessera.InferenceSession(two_inputs_model(b"width", b"width"), values={"b": [[1, 1, 1]]})
        self.assertEqual([node.name for node in session.get_inputs()], ["a"])
        a = np.array([[1, 2, 3]], np.float32)
        np.testing.assert_array_equal(session.run(None, {"a": a})[0], a + 1)
        with self.assertRaisesRegex(tessera.Error, "nowhere.plan"):
            tessera.InferenceSession("zoo:mlp", plan="/nowhere.plan")

    def test_what_is_no_model(self):
        for content in (b"", b"\x07", b"hello world"):
            with self.assertRaises((ValueError, tessera.Error)):
                tessera.InferenceSession(content)


class OpenOutputsTest(unittest.TestCase):
    """found = NonZero(x) of f32[rows, 3]: how many there are follows from data."""

    def setUp(self):
        self.x = np.array([[0, 2, 0], [1, 0, 3]], np.float32)
        self.want = np.array([[0, 1, 1], [1, 0, 2]])

    def test_models(self):
        model = tessera.compile(nonzero_model(), dims={"rows": 2})
        self.assertEqual(model.outputs, (tessera.TensorInfo("found", "i64", (2, -1)),))
        self.assertEqual(repr(model), "<tessera.Model (x: f32[2, 3]) -> (found: i64[2, -1])>")
        for x in (self.x, 0 * self.x, self.x + 1, self.x):
            found = model(x)
            np.testing.assert_array_equal(found, np.stack(np.nonzero(x)))
            self.assertEqual(found.dtype, np.int64)
        np.testing.assert_array_equal(model.run({"x": self.x})["found"], self.want)
        np.testing.assert_array_equal(model(self.x.tolist()), self.want)
        out = np.zeros((2, 3), np.int64)
        self.assertIs(model(self.x, out=out), out)
        np.testing.assert_array_equal(out, self.want)
        with self.assertRaisesRegex(tessera.Error, "found"):
            model(self.x, out=np.zeros((2, 4), np.int64))
        with self.assertRaisesRegex(tessera.Error, "NonZero"), tempfile.TemporaryDirectory() as folder:
            model.save(os.path.join(folder, "out"))

    def test_inference_sessions(self):
        session = tessera.InferenceSession(nonzero_model())
        self.assertEqual(session.get_outputs()[0].shape, [2, "n"])
        for rows in (1, 2, 5):
            x = np.tile(self.x, (rows, 1))
            np.testing.assert_array_equal(session.run(["found"], {"x": x})[0], np.stack(np.nonzero(x)))

    def test_several_threads(self):
        model = tessera.compile(nonzero_model(), dims={"rows": 2})
        wrong = []

        def work(scale):
            x = scale * self.x
            for _ in range(50):
                if not np.array_equal(model(x), np.stack(np.nonzero(x))):
                    wrong.append(scale)

        def written():
            out = np.zeros((2, 6), np.int64)
            for _ in range(50):
                if not np.array_equal(model(self.x + 5, out=out), np.stack(np.nonzero(self.x + 5))):
                    wrong.append("out=")

        threads = [threading.Thread(target=work, args=(scale,)) for scale in (0, 1, 2)]
        threads.append(threading.Thread(target=written))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number, content):
    """A field of a protobuf message: a number, or bytes."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def symbolic_model(name=b"x", says_output=True):
    """y = |x| with x f32[rows, 3], as the bytes of an ONNX file."""
    shape = field(1, field(2, b"rows")) + field(1, field(1, 3))
    kind = field(1, field(1, 1) + field(2, shape))
    node = field(1, name) + field(2, b"y") + field(4, b"Abs")
    graph = (field(1, node) + field(2, b"abs") + field(11, field(1, name) + field(2, kind)) +
             field(12, field(1, b"y") + (field(2, kind) if says_output else b"")))
    return (field(1, 8) + field(2, b"pen") + field(7, graph) + field(8, field(1, b"") + field(2, 13)) +
            field(14, field(1, b"k") + field(2, b"v")))


def nonzero_model():
    """found = NonZero(x) with x f32[rows, 3], i64[2, n]."""
    def kind(element, *dims):
        return field(2, field(1, field(1, element) + field(2, b"".join(field(1, d) for d in dims))))

    graph = (field(1, field(1, b"x") + field(2, b"found") + field(4, b"NonZero")) + field(2, b"find") +
             field(11, field(1, b"x") + kind(1, field(2, b"rows"), field(1, 3))) +
             field(12, field(1, b"found") + kind(7, field(1, 2), field(2, b"n"))))
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 13))


def two_inputs_model(first, second):
    """y = a + b with a f32[1, first] and b f32[1, second]."""
    kinds = [field(2, field(1, field(1, 1) + field(2, field(1, field(1, 1)) + field(1, field(2, size)))))
             for size in (first, second)]
    graph = (field(1, field(1, b"a") + field(1, b"b") + field(2, b"y") + field(4, b"Add")) + field(2, b"sum") +
             field(11, field(1, b"a") + kinds[0]) + field(11, field(1, b"b") + kinds[1]) +
             field(12, field(1, b"y") + kinds[0]))
    return field(1, 8) + field(7, graph) + field(8, field(1, b"") + field(2, 13))


if __name__ == "__main__":
    unittest.main()
