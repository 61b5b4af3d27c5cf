"""The model of examples/digits on the pictures that it was not trained on."""
import os
import unittest

import numpy as np
import tessera

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/digits")


class DigitsTest(unittest.TestCase):
    def test_names_pictures_that_were_held_out(self):
        with np.load(os.path.join(FOLDER, "held_out.npz")) as held:
            pictures, answers = held["picture"], held["answer"]
        self.assertGreater(len(answers), 300)
        self.assertEqual(set(answers.tolist()), set(range(10)))
        model = tessera.compile(os.path.join(FOLDER, "digits.onnx"), batch=len(pictures), threads=1)
        probabilities = model(pictures)
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
        self.assertGreaterEqual((probabilities.argmax(1) == answers).mean(), 0.95)

    def test_the_picture_of_the_demo_is_one_of_them(self):
        with np.load(os.path.join(FOLDER, "held_out.npz")) as held:
            self.assertTrue((held["picture"] == np.load(os.path.join(FOLDER, "digit.npy"))).all((1, 2, 3)).any())


if __name__ == "__main__":
    unittest.main()
