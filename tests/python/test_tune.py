"""tessera.tune, by the program that comes with the package."""
import contextlib
import io
import os
import subprocess
import tempfile
import unittest
import warnings
from unittest import mock

import numpy as np
import tessera
from program_that import program_that
from tessera._bar import Bar


class TuneTest(unittest.TestCase):
    def test_progress_of_agents_and_of_later_versions(self):
        line = '{"phase": "search", "trials": 7, "agents": 3, "queued": 12, "trials_per_s": 5.5, "later": [1]}'
        seen = []
        with program_that(line):
            tessera.tune("zoo:mlp", agents=3, progress=seen.append)
        self.assertEqual(seen, [tessera.Progress("search", trials=7, agents=3, queued=12, trials_per_s=5.5)])

    def test_remarks_of_the_program_are_warnings(self):
        said = "tessera: checking the whole model; another Ctrl-C leaves the plan unchecked\n" \
               "tessera: kernels 18 % faster; their plan: x.unproved.plan; try --target x86-64-v3\nnoise"
        with program_that(said, '{"plan": "x.plan", "unproved_plan": "x.unproved.plan"}'):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                tuning = tessera.tune("zoo:mlp", plan="x.plan")
        self.assertEqual([str(w.message) for w in told],
                         ['kernels 18 % faster; their plan: x.unproved.plan; try target="x86-64-v3"'])
        self.assertEqual(told[0].filename, __file__)
        self.assertEqual(tuning.unproved, "x.unproved.plan")
        with program_that():
            self.assertIsNone(tessera.tune("zoo:mlp", plan="x.plan").unproved)

    def test_database_of_the_environment(self):
        for url, db, want in (("postgresql://db/t", None, []), ("postgresql://db/t", "own.db", ["--db", "own.db"]),
                              ("", None, ["--db", ""])):
            with self.subTest(url=url, db=db), program_that() as path, mock.patch.dict(os.environ, {"TESSERA_DB": url}):
                tessera.tune("zoo:mlp", db=db)
                with open(path) as file:
                    words = file.read().split("\n")[:-1]
                self.assertEqual(words[words.index("--db"):] if "--db" in words else [], want)

    def test_finds_a_plan_and_reports_progress(self):
        seen = []
        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "mlp.plan")
            tuning = tessera.tune("zoo:mlp", trials=12, plan=plan, progress=seen.append, seed=3, learner="none",
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
        with self.assertRaisesRegex(FileNotFoundError, "nonexistent"):
            tessera.tune("/nonexistent.onnx", trials=1)
        with self.assertRaisesRegex(tessera.Error, "^'soon' is not a duration|^--budget: 'soon'"):
            tessera.tune("zoo:mlp", budget="soon")

    def test_leaves_its_plan_beside_the_model_and_shows_a_bar(self):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of a busy machine would be among what is said
            model = os.path.join(folder, "net.v2.onnx")
            subprocess.run([tessera.program(), "zoo", "--export", "mlp", "--output", model], check=True,
                           capture_output=True)
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                tuning = tessera.tune(model, trials=6, progress=True, learner="none", threads=1)
            self.assertEqual(tuning.plan, os.path.join(folder, "net.v2.plan"))
            self.assertTrue(os.path.exists(tuning.plan))
            self.assertIn(" trials", said.getvalue())
            self.assertTrue(said.getvalue().endswith("\n"))
            with contextlib.redirect_stderr(said := io.StringIO()):
                tessera.tune(model, trials=6, learner="none", threads=1)
            self.assertEqual(said.getvalue(), "")

    def test_bars_say_how_far_a_tuning_is(self):
        said = io.StringIO()
        bar = Bar(said)
        bar(tessera.Progress("search", "conv", 12, 0, 3.3e-3, 2.2e-3, 30, 90))
        self.assertEqual(said.getvalue(), "\r[#####...............] 1:30 left, search, 12 trials, "
                                          "3.3 ms -> 2.2 ms (1.50x)")
        bar(tessera.Progress("finals", "conv", 13, 0, 0, 0, 30, 0))
        self.assertTrue(said.getvalue().split("\r")[-1].startswith("0:30, finals, 13 trials "))

    def test_what_the_callback_raises_ends_the_search(self):
        def stop(progress):
            raise ZeroDivisionError("enough")

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ZeroDivisionError, "enough"):
                tessera.tune("zoo:mlp", budget="60s", progress=stop, learner="none", threads=1,
                             plan=os.path.join(folder, "mlp.plan"))


if __name__ == "__main__":
    unittest.main()
