"""The guide to a cost model in PyTorch: what it trains tunes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tessera

try:
    import torch
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).parents[2]
GUIDE = ROOT / "examples/own/train_torch.py"
RECORDS = ROOT / "tests/app/replay"


def run(*command, code=0):
    # Threads that wait for each other beside other work take longer than one.
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == code, done.stderr
    return done


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TrainTorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.features, cls.model = os.path.join(cls.folder.name, "features"), os.path.join(cls.folder.name, "mlp.pt")
        run(tessera.program(), "dataset", "export", RECORDS, "-o", cls.features, "--format", "npz")
        cls.trained = run(sys.executable, GUIDE, "train", RECORDS, cls.features, "-o", cls.model, "--epochs", "4")

    def test_learns(self):
        losses = [float(line.split()[-1]) for line in self.trained.stderr.splitlines() if line.startswith("epoch")]
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0])
        result = json.loads(self.trained.stdout)
        self.assertGreater(result["learned"], result["tested"])
        self.assertGreater(result["tested"], 0)
        self.assertGreater(result["pairwise"], 0.5)

    def test_tunes(self):
        plan = os.path.join(self.folder.name, "own.plan")
        done = run(tessera.program(), "tune", "--op", "matmul:M=48,N=40,K=32", "--threads", "1", "--peers", "none", "--trials",
                   "24", "--round", "8", "--db", "", "--plan", plan, "--json", "--cost-model",
                   f"exec:{sys.executable} {GUIDE} serve {self.model}")
        self.assertEqual(json.loads(done.stdout)["trials"], 24)
        self.assertNotIn("the search continues without", done.stderr)
        self.assertTrue(os.path.exists(plan))

    def test_refuses_rows_of_another_export(self):
        asked = json.dumps({"do": "start", "rows": {"statement": ["one", "two"]}}) + "\n"
        done = subprocess.run([sys.executable, str(GUIDE), "serve", self.model], input=asked, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("export and train again", done.stderr)

    def test_refuses_an_export_of_other_records(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([sys.executable, str(GUIDE), "train", empty, self.features, "-o", self.model + "2"],
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not an export of", done.stderr)
        self.assertFalse(os.path.exists(self.model + "2"))


if __name__ == "__main__":
    unittest.main()
