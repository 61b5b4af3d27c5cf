"""Sessions of models with open dimensions: programs that are kept, warm_up, buckets."""
import struct
import threading
import unittest
import warnings

import numpy as np
import tessera
from test_models import field, symbolic_model, two_inputs_model


def value(name, *shape):
    """An f32 input or output; axes are sizes or names."""
    axes = b"".join(field(1, field(1, a) if isinstance(a, int) else field(2, a.encode())) for a in shape)
    return field(1, name.encode()) + field(2, field(1, field(1, 1) + field(2, axes)))


def constant(name, given):
    """A scalar of f32, or a list of i64."""
    if isinstance(given, list):
        return field(1, len(given)) + field(2, 7) + field(8, name.encode()) + field(9, struct.pack(f"<{len(given)}q", *given))
    return field(2, 1) + field(8, name.encode()) + field(9, struct.pack("<f", given))


def model(nodes, inputs, outputs, constants):
    """The bytes of an ONNX file; nodes are "Op a b -> c"."""
    content = b""
    for node in nodes:
        op, *names = node.replace("-> ", "").split()
        content += field(1, b"".join(field(1, n.encode()) for n in names[:-1]) + field(2, names[-1].encode()) +
                         field(4, op.encode()))
    content += field(2, b"g")
    content += b"".join(field(5, constant(*c)) for c in constants.items())
    content += b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs)
    return field(1, 8) + field(7, content) + field(8, field(1, b"") + field(2, 13))


def attention(masked):
    """y = softmax(x x^T + (mask - 1) 1e9) x over rows of x."""
    scores = ["Sub mask one -> a", "Mul a big -> b", "Add s b -> t"] if masked else ["Mul mask zero -> b", "Add s b -> t"]
    return model(["Transpose x -> xt", "MatMul x xt -> s", *scores, "Softmax t -> p", "MatMul p x -> y"],
                 [value("x", "rows", 4), value("mask", 1, "rows")], [value("y", "rows", 4)],
                 {"one": 1, "big": 1e9, "zero": 0})


def rows(count, seed=0):
    x = np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)
    return {"x": x, "mask": np.ones((1, count), np.float32)}


def expected(x):
    scores = x @ x.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ x


def compiled(session):
    return [shapes[0] for shapes in session._models]


class ProgramsTest(unittest.TestCase):
    def run_rows(self, session, *counts):
        for count in counts:
            x = -np.ones((count, 3), np.float32)
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], -x)

    def test_the_programs_used_last_are_kept(self):
        session = tessera.InferenceSession(symbolic_model(), programs=2)
        session.warm_up([{"rows": 2}])
        self.run_rows(session, 3, 2)
        with self.assertLogs("tessera", "INFO") as log:
            self.run_rows(session, 4)
        self.assertRegex(log.output[0], r"compiled for x\[4, 3\] in [0-9.]+ s")
        self.assertIn("dropped the program for x[3, 3]: 2 are kept", log.output[1])
        self.assertEqual(compiled(session), [(2, 3), (4, 3)])
        with self.assertRaisesRegex(ValueError, "programs: at least one"):
            tessera.InferenceSession(symbolic_model(), programs=0)

    def test_the_third_compilation_is_worth_a_warning(self):
        session = tessera.InferenceSession(symbolic_model())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            session.warm_up([{"rows": n} for n in (1, 2, 3, 4)])
            self.run_rows(session, 1, 2, 3, 4, 5, 6)
        with self.assertWarnsRegex(UserWarning, r"3 shapes were compiled .* warm_up\(\), pad inputs by buckets="):
            self.run_rows(session, 7)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.run_rows(session, 8)

    def test_warm_up_by_sizes_or_shapes(self):
        session = tessera.InferenceSession(two_inputs_model(b"m", b"n"))
        session.warm_up([{"m": 3, "n": 3}, {"a": (1, 4), "b": (1, 4)}, {"a": (1, 5), "n": 5}])
        self.assertEqual(list(session._models), [((1, n), (1, n)) for n in (3, 4, 5)])
        for given, why in (({"m": 3}, r"input 'b' has the shape \[1, 'n'\]: give it, or the size of each dimension"),
                           ({"q": 3}, "no input and no dimension 'q'; there are: a, b, m, n")):
            with self.assertRaisesRegex(ValueError, why):
                session.warm_up([given])


    def test_several_threads(self):
        session, wrong = tessera.InferenceSession(symbolic_model(), programs=2), []

        def work(first):
            for i in range(60):
                x = -np.ones(((first + i) % 3 + 1, 3), np.float32)
                try:
                    if not np.array_equal(session.run(None, {"x": x})[0], -x):
                        wrong.append(x.shape)
                except Exception as error:  # noqa: BLE001
                    wrong.append(error)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(compiled(session)), 2)


class BucketsTest(unittest.TestCase):
    def test_what_was_compared_is_known_all_at_once(self):
        buckets = tessera._lengths.Buckets({"rows": [8]}, {"x": ["rows", 4]})
        padding = buckets.padding({"rows": 5})
        other = np.zeros((8, 2), np.float32)
        why = buckets.compare(["y"], [np.ones((5, 2), np.float32)], [other], padding, 1e-4)
        self.assertIn("changes output 'y'", why)
        self.assertFalse(buckets.compared(padding), "nothing was learnt from results that differ")
        self.assertEqual(buckets.compare(["y"], [other[:5]], [other], padding, 1e-4), "")
        self.assertEqual(buckets.cut([other], padding)[0].shape, (5, 2))

    def test_a_few_programs_serve_all_sizes(self):
        session = tessera.InferenceSession(attention(masked=True), buckets={"rows": [16, 8]})
        session.warm_up([{"rows": 8}, {"rows": 9}])
        self.assertEqual(compiled(session), [(8, 4), (16, 4)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for count in (5, 8, 3, 16, 11, 9, 1):
                feed = rows(count, count)
                y = session.run(["y"], feed)[0]
                np.testing.assert_allclose(y, expected(feed["x"]), rtol=1e-4, atol=1e-5)
        self.assertEqual(sorted(compiled(session)), [(5, 4), (8, 4), (16, 4)], "the first one was compared")
        session.run(None, rows(40))
        self.assertEqual(compiled(session)[-1], (48, 4), "a multiple of the largest")

    def test_results_that_padding_changes_are_not_returned(self):
        session = tessera.InferenceSession(attention(masked=False), buckets={"rows": [8]})
        feed = rows(5)
        with self.assertWarnsRegex(UserWarning, "given up: padding rows from 5 to 8 changes output 'y' by up to"):
            y = session.run(None, feed)[0]
        np.testing.assert_allclose(y, expected(feed["x"]), rtol=1e-4, atol=1e-5)
        feed = rows(6)
        np.testing.assert_allclose(session.run(None, feed)[0], expected(feed["x"]), rtol=1e-4, atol=1e-5)
        self.assertEqual(compiled(session)[-1], (6, 4))

    def test_outputs_whose_shapes_mix_dimensions_are_not_cut(self):
        content = model(["Reshape x flat -> y"], [value("x", "rows", 4)], [value("y", "n")], {"flat": [-1]})
        session = tessera.InferenceSession(content, buckets={"rows": [8]})
        with self.assertWarnsRegex(UserWarning, r"gives output 'y' the shape \[32\] in place of \[20\]"):
            y = session.run(None, {"x": rows(5)["x"]})[0]
        np.testing.assert_array_equal(y, rows(5)["x"].reshape(-1))

    def test_two_dimensions(self):
        session = tessera.InferenceSession(
            model(["Abs x -> y"], [value("x", "batch", "rows")], [value("y", "batch", "rows")], {}),
            buckets={"batch": [4], "rows": [4, 8]})
        for shape in ((4, 4), (3, 3), (4, 7), (3, 8), (2, 5), (3, 3), (1, 1)):
            x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.abs(x))
        self.assertEqual(set(compiled(session)), {(4, 4), (4, 8), (3, 3), (4, 7), (3, 8)})

    def test_what_cannot_be_padded(self):
        mixed = model(["Abs x -> y"], [value("x", "past + rows"), value("z", "rows")], [value("y", "n")], {})
        for content, buckets, why in (
                (symbolic_model(), {"columns": [8]}, "buckets: no dimension 'columns'; there are: rows"),
                (symbolic_model(), {"rows": []}, r"buckets of 'rows' are sizes from 1 on, not \[\]"),
                (symbolic_model(), {"rows": [0, 8]}, "buckets of 'rows' are sizes from 1 on"),
                (mixed, {"rows": [8]}, r"'rows' cannot be padded, it is a part of 'past \+ rows'")):
            with self.assertRaisesRegex(ValueError, why):
                tessera.InferenceSession(content, buckets=buckets)
        session = tessera.InferenceSession(attention(masked=True), buckets={"rows": [8]})
        with self.assertRaisesRegex(ValueError, "rows is 5 in input 'x' and 4 in 'mask'"):
            session.run(None, {"x": rows(5)["x"], "mask": rows(4)["mask"]})


if __name__ == "__main__":
    unittest.main()
