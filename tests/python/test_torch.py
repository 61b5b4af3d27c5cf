"""PyTorch's tensors through DLPack: the model reads and writes their memory."""
import unittest

import numpy as np
import tessera

try:
    import torch
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tessera.compile("zoo:mlp", threads=1)

    def test_tensors_give_tensors(self):
        x = torch.rand(1, 784)
        y = self.model(x)
        self.assertIsInstance(y, torch.Tensor)
        self.assertEqual((tuple(y.shape), y.dtype), ((1, 10), torch.float32))
        for _ in range(2):  # the second call knows what the first had to find out
            np.testing.assert_array_equal(self.model(x).numpy(), self.model(x.numpy()))

    def test_memory_of_the_caller(self):
        x, out = torch.zeros(1, 784), torch.empty(1, 10)
        address = out.data_ptr()
        self.assertIs(self.model(x, out=out), out)
        self.assertEqual(out.data_ptr(), address)
        before = out.clone()
        x += 1  # the same memory is read again
        self.model(x, out=out)
        self.assertFalse(torch.equal(before, out))

    def test_what_mixes_or_is_not_plain_takes_the_slow_way(self):
        x = torch.rand(1, 784)
        y = self.model(x)
        self.assertTrue(torch.equal(self.model(torch.nn.Parameter(x, requires_grad=False)), y))
        out = np.empty((1, 10), np.float32)
        self.model(x, out=out)
        np.testing.assert_array_equal(out, y.numpy())
        with self.assertRaisesRegex(tessera.Error, "f32"):
            self.model(x.double())
        with self.assertRaises(tessera.Error):
            self.model(x.T)

    def test_outputs_outlive_the_session(self):
        y = tessera.compile("zoo:mlp", threads=1)(torch.zeros(1, 784))
        kept = y.clone()
        y += 1
        self.assertTrue(torch.equal(y, kept + 1))

    def test_strides(self):
        wide = torch.rand(784, 1)
        np.testing.assert_array_equal(self.model(wide.T).numpy(), self.model(wide.T.contiguous()).numpy())

    def test_a_tensor_that_is_differentiated_is_refused(self):
        with self.assertRaises((RuntimeError, BufferError)):
            self.model(torch.zeros(1, 784, requires_grad=True))


if __name__ == "__main__":
    unittest.main()
