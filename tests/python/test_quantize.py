"""tessera.quantize, by the program that comes with the package."""
import os
import tempfile
import unittest

import numpy as np
import tessera
from program_that import program_that


class QuantizeTest(unittest.TestCase):
    def test_writes_a_model_that_agrees(self):
        rng = np.random.default_rng(1)
        samples = [{"input": rng.uniform(-1, 1, (1, 784)).astype(np.float32)} for _ in range(2)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mlp.int8.onnx")
            made = tessera.quantize("zoo:mlp", output=path, calibration=samples, method="mse")
            self.assertEqual(made.path, path)
            self.assertGreater(made.cosine, 0.99)
            self.assertEqual(len(made.report["layers"]), 3)
            x = samples[0]["input"]
            narrow, wide = tessera.compile(path)(x), tessera.compile("zoo:mlp")(x)
            self.assertLess(np.abs(narrow - wide).max(), 0.1 * np.abs(wide).max())

    def test_what_is_remarked_on_is_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertWarnsRegex(UserWarning, "^calibrating with random values.* WRONG") as told:
                tessera.quantize("zoo:mlp", output=os.path.join(folder, "mlp.onnx"), calibration="random:1")
        self.assertEqual(told.filename, __file__)
        with program_that("tessera: warning: the tolerance top1=1 does not hold", '{"output": "x.onnx"}', ends_with=4):
            with self.assertWarnsRegex(UserWarning, "^the tolerance top1=1 does not hold"):
                self.assertEqual(tessera.quantize("zoo:mlp", output="x.onnx").path, "x.onnx")

    def test_errors_are_those_of_the_program(self):
        with self.assertRaisesRegex(tessera.Error, "needs --calibration"):
            tessera.quantize("zoo:mlp", output="/tmp/never.onnx")


if __name__ == "__main__":
    unittest.main()
