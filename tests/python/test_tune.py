"""tessera.tune, by the program that comes with the package."""
import os
import tempfile
import unittest

import numpy as np
import tessera


class TuneTest(unittest.TestCase):
    def test_finds_a_plan_and_reports_progress(self):
        seen = []
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "mlp.plan")
            tuning = tessera.tune("zoo:mlp", trials=12, plan=plan, progress=seen.append, seed=3, model="none",
                                  threads=1)
            self.assertEqual(tuning.plan, plan)
            self.assertFalse(tuning.interrupted)
            self.assertGreater(tuning.before_s, 0)
            self.assertGreater(tuning.gain, 0)
            self.assertGreater(tuning.report["trials"], 0)
            self.assertTrue(seen)
            self.assertIsInstance(seen[-1], tessera.Progress)
            x = np.ones((1, 784), np.float32)
            tuned = tessera.compile("zoo:mlp", plan=tuning, threads=1)(x)
            np.testing.assert_allclose(tuned, tessera.compile("zoo:mlp", threads=1)(x), rtol=1e-4)

    def test_errors_are_those_of_the_program(self):
        with self.assertRaisesRegex(tessera.Error, "nonexistent"):
            tessera.tune("/nonexistent.onnx", trials=1)
        with self.assertRaisesRegex(tessera.Error, "duration"):
            tessera.tune("zoo:mlp", budget="soon")

    def test_what_the_callback_raises_ends_the_search(self):
        def stop(progress):
            raise ZeroDivisionError("enough")

        with self.assertRaisesRegex(ZeroDivisionError, "enough"):
            tessera.tune("zoo:mlp", budget="60s", progress=stop, model="none", threads=1)


if __name__ == "__main__":
    unittest.main()
