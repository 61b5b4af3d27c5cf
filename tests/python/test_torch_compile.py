"""torch.compile(backend="tessera") and tessera.from_torch beside PyTorch itself."""
import gc
import operator
import os
import pickle
import tempfile
import unittest
import warnings
from unittest import mock

import numpy as np
import tessera

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

if torch is not None:
    from tessera.torch import _backend, backend
    from torch.nn import functional

    class Block(nn.Module):
        """Of a language model: embeddings, causal attention, a normalised feed-forward part."""

        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
            self.last = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU("tanh"), nn.Linear(64, 50))

        def forward(self, words):
            x = self.words(words) + self.places(torch.arange(words.shape[1]))
            heads = self.qkv(self.norm(x)).view(*words.shape, 3, 4, 8).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(*heads.unbind(0), is_causal=True)
            return self.last(x + self.out(y.transpose(1, 2).reshape(x.shape)))

    def convolutional():
        torch.manual_seed(3)
        module = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, groups=4), nn.Hardswish(), nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(72, 5))
        module(torch.rand(8, 3, 20, 20))  # statistics that are none of the defaults
        return module.eval()


def compiled(module, **options):
    torch._dynamo.reset()
    return torch.compile(module, backend=backend, options={"threads": 1, **options})


def backend_of_graph(graph):
    return _backend.Graph(graph, (), {"threads": 1}).function()


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BackendTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        self.addCleanup(torch.set_grad_enabled, before)

    def check(self, module, *args, fast=None):
        """Compiled, it gives what it gives, without a word."""
        fast = compiled(module) if fast is None else fast
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="tessera:")
            for _ in range(2):
                torch.testing.assert_close(fast(*args), module(*args), rtol=1e-4, atol=1e-5)
        return fast

    def test_small_networks(self):
        mlp = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(-1)).eval()
        self.check(mlp, torch.rand(3, 16))
        self.check(convolutional(), torch.rand(2, 3, 20, 20))
        self.check(Block().eval(), torch.randint(50, (2, 12)))

    def test_layer_that_pytorch_runs_as_one_operator(self):
        x = torch.rand(2, 7, 32)
        hidden = torch.zeros(2, 7, dtype=torch.bool)
        hidden[1, 5:] = True
        for norm_first in (False, True):
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).eval()
            self.check(layer, x)
            fast = compiled(lambda a, m: layer(a, src_key_padding_mask=m))
            seen = ~hidden
            torch.testing.assert_close(fast(x, hidden)[seen], layer(x, src_key_padding_mask=hidden)[seen], rtol=1e-4, atol=1e-5)

    def test_it_is_found_by_name(self):
        if "tessera" not in torch._dynamo.list_backends():
            self.skipTest("the package is not installed")
        torch._dynamo.reset()
        module = nn.Linear(4, 4).eval()
        self.check(module, torch.rand(2, 4), fast=torch.compile(module, backend="tessera"))

    def test_graph_breaks_and_branches_on_data(self):
        layer = nn.Linear(8, 8)

        def function(x):
            y = layer(x).relu()
            torch._dynamo.graph_break()
            return y * 2 if y.sum() > 0 else y - 1

        self.check(function, torch.rand(3, 8) + 1)
        self.check(function, torch.rand(3, 8) * 0 - 100)

    def test_results_that_are_inputs_numbers_or_twice_the_same(self):
        def function(x, flag=True):
            y = x + 1
            return {"same": x, "twice": (y, y), "none": None, "number": 3, "part": x[:, :2]}

        x = torch.rand(2, 4)
        got = compiled(function)(x)
        self.assertIs(got["same"], x)
        self.assertEqual((got["none"], got["number"]), (None, 3))
        torch.testing.assert_close(got["twice"], (x + 1, x + 1))
        got["part"].zero_()
        self.assertEqual(x[:, :2].abs().sum(), 0, "a part of an input is a view of it")

    def test_results_that_are_sizes(self):
        def function(x):
            y = x * 2
            count = x.shape[0] * 3
            torch._dynamo.graph_break()
            return y.sum() + count

        fast = compiled(function)
        for rows in (2, 3, 4):
            x = torch.rand(rows, 4)
            torch.testing.assert_close(fast(x), function(x))
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        x.meta["val"] = torch.rand(2)
        y = graph.call_function(torch.ops.aten.add.Tensor, (x, 1))
        y.meta["val"] = torch.rand(2)
        graph.output((7, y, x, 0, None))
        made = backend_of_graph(torch.fx.GraphModule(nn.Module(), graph))([torch.ones(2)])
        self.assertEqual((made[0], made[1].tolist(), made[2].tolist(), made[3], made[4]), (7, [2, 2], [1, 1], 0, None))

    def test_inputs_that_the_module_writes_to(self):
        def function(x):
            x.add_(1)
            return x * 2

        want, got = torch.zeros(3), torch.zeros(3)
        torch.testing.assert_close(compiled(function)(got), function(want))
        torch.testing.assert_close(got, want)

    def test_weights_that_change_are_seen(self):
        module = nn.Linear(4, 2).eval()
        x = torch.rand(3, 4)
        fast = self.check(module, x)
        for step in range(4):  # in place, as optimizers and load_state_dict write; after a few, they become inputs
            module.weight.add_(step + 1)
            self.check(module, x, fast=fast)
        module.weight = nn.Parameter(torch.rand(2, 4))
        self.check(module, x, fast=fast)

    def test_every_set_of_sizes_is_compiled(self):
        module = nn.Sequential(nn.Linear(6, 6), nn.ReLU()).eval()
        fast = compiled(lambda x: module(x).view(x.shape[0] * 2, 3).sum(0) / x.shape[0])
        want = lambda x: module(x).view(x.shape[0] * 2, 3).sum(0) / x.shape[0]  # noqa: E731
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for rows in (2, 3, 4, 5, 3):
                x = torch.rand(rows, 6)
                torch.testing.assert_close(fast(x), want(x), rtol=1e-4, atol=1e-5)
        told = [str(w.message) for w in said if str(w.message).startswith("tessera:")]
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], "each set of sizes is compiled by itself")

    def test_what_is_not_converted_runs_as_before_and_is_named(self):
        function = lambda x: torch.linalg.svd(x)[1] + 1  # noqa: E731
        x = torch.rand(3, 3)
        with self.assertWarnsRegex(UserWarning, "tessera: a graph of .* operations runs as PyTorch runs it: .*svd"):
            got = compiled(function)(x)
        torch.testing.assert_close(got, function(x))
        small = torch.tensor([1, 44, 255], dtype=torch.uint8)
        with self.assertWarnsRegex(UserWarning, "runs as PyTorch runs it: add with these arguments"):
            got = compiled(lambda x: x + 300)(small)
        torch.testing.assert_close(got, small + 300)

    def test_what_cannot_be_traced_for_its_sizes_runs_as_before(self):
        function = lambda x: x.view(x.shape[0] * 2, 3) + x.shape[0]  # noqa: E731
        fast = compiled(function)
        fast(torch.rand(2, 6))  # those of the next call are left open
        with mock.patch("torch.fx.experimental.proxy_tensor.make_fx", side_effect=RuntimeError("no fake tensors")):
            with self.assertWarnsRegex(UserWarning, "runs as PyTorch runs it: PyTorch cannot trace .*: no fake tensors"):
                got = fast(x := torch.rand(3, 6))
        torch.testing.assert_close(got, function(x))

    def test_what_is_differentiated_runs_as_before_with_the_reason(self):
        module = nn.Linear(4, 1)
        with torch.enable_grad():
            with self.assertWarnsRegex(UserWarning, "gradients are wanted, and Tessera computes none.*no_grad"):
                loss = compiled(module)(torch.rand(2, 4)).sum()
            loss.backward()
        self.assertEqual(module.weight.grad.shape, (1, 4))

    def test_inputs_that_could_be_differentiated(self):
        module = nn.Linear(4, 1)
        x = torch.rand(2, 4, requires_grad=True)
        self.check(module, x)
        with torch.inference_mode():
            self.check(nn.Linear(4, 1), torch.rand(2, 4))  # its weights tell nobody when they change

    def test_options_that_do_not_exist(self):
        with self.assertRaisesRegex(Exception, "unexpected keyword argument 'thread'"):
            compiled(nn.Linear(2, 2), thread=1)(torch.rand(1, 2))


def one(*names):
    """Operators by their names in torch, on a matrix."""
    return [(name, lambda x, f=name: getattr(torch, f)(x)) for name in names]


@unittest.skipIf(torch is None, "PyTorch is not installed")
class OperatorsTest(unittest.TestCase):
    """Each conversion beside PyTorch, and as its own graph."""

    def run_all(self, cases, x):
        torch.manual_seed(2)
        for name, function in cases:
            with self.subTest(name), torch.no_grad(), warnings.catch_warnings():
                warnings.filterwarnings("error", message="tessera:")
                torch.testing.assert_close(compiled(function)(x), function(x), rtol=1e-4, atol=1e-5)

    def test_by_element(self):
        x = torch.rand(3, 4) * 1.6 - 0.8
        self.run_all(one("abs", "neg", "exp", "sin", "cos", "tan", "tanh", "sigmoid", "relu", "erf", "floor", "ceil",
                         "round", "sign", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "trunc", "square",
                         "log1p", "expm1", "exp2", "isnan", "isinf", "reciprocal", "logical_not"), x)
        self.run_all([
            ("log", lambda x: (x + 1).log() + (x + 1).log2() + (x + 1).log10() + (x + 1).rsqrt() + (x + 1).sqrt()),
            ("sub", lambda x: torch.sub(x, x * 3, alpha=2) + torch.add(x, 1, alpha=3) + (2 - x)),
            ("div", lambda x: x / 2 + torch.div(x, 0.3, rounding_mode="floor") + torch.div(x, 0.3, rounding_mode="trunc")),
            ("remainder", lambda x: torch.remainder(x, 0.3) + torch.fmod(x, 0.3)),
            ("tenths", lambda x: (x * 0 + 1) // 0.1 + (x * 0 - 1) // 0.1 + torch.remainder(x * 0 + 1, 0.1) + x // -0.3),
            ("pow", lambda x: x**2 + (x + 1) ** 0.5 + 2**x),
            ("compare", lambda x: ((x > 0) & (x < 0.5)) | (x == x.max()) ^ (x != 0.1) & ~(x <= -0.5) | (x >= 0.7)),
            ("clamp", lambda x: x.clamp(-0.2, 0.3) + x.clamp(min=0) + x.clamp(max=0) + functional.hardtanh(x)),
            ("where", lambda x: torch.where(x > 0, x, 0.0).masked_fill(x > 0.5, 7.0)),
            ("gelu", lambda x: functional.gelu(x) + functional.gelu(x, approximate="tanh")),
            ("softplus", lambda x: functional.softplus(x, beta=2) + functional.mish(x) + functional.silu(x)),
            ("elu", lambda x: functional.elu(x, 0.7) + functional.selu(x) + functional.leaky_relu(x, 0.2)),
            ("hard", lambda x: functional.hardsigmoid(x) + functional.hardswish(x) + functional.relu6(x)),
            ("prelu", lambda x: functional.prelu(x, torch.tensor([0.1, 0.2, 0.3, 0.4]))),
            ("types", lambda x: (x * 10).to(torch.int64) // 3 + (x * 10).int() % 4 + True),
            ("glu", lambda x: functional.glu(x) + functional.softsign(x)[:, :2]),
        ], x)

    def test_reductions(self):
        x = torch.rand(3, 4, 5)
        self.run_all([
            ("sum", lambda x: x.sum() + x.mean(1).sum(-1, keepdim=True) + x.amax((0, 2)).amin()),
            ("max", lambda x: x.max(1).values + x.min(1, keepdim=True)[0].squeeze(1)),
            ("argmax", lambda x: x.argmax(2) + x.argmin(2) + x.argmax() + x.max(2).indices),
            ("any", lambda x: (x > 0.9).any(1) | (x > 0.05).all(1)),
            ("var", lambda x: x.var(1) + x.std(1, correction=0) + torch.var_mean(x, 1)[0] - torch.var_mean(x, 1)[1]),
            ("norm", lambda x: x.norm(dim=1) + x.norm(p=1, dim=1) + x.norm(p=float("inf"), dim=1)),
            ("softmax", lambda x: x.softmax(1) + x.log_softmax(-1) + x.logsumexp(1, keepdim=True)),
            ("cumsum", lambda x: x.cumsum(1) + x.prod(1, keepdim=True)),
        ], x)

    def test_parts_and_order(self):
        index = torch.tensor([[2, 0], [1, 1]])
        x = torch.rand(3, 4, 6)

        def written(x):
            y = x.clone()
            y[:, 1] = 5
            y[:, :, 2:4] = x[:, :, :2]
            return y

        self.run_all([
            ("views", lambda x: x.reshape(6, -1).t().flatten().view(3, 4, 6).unsqueeze(1).squeeze(1).transpose(0, 2)),
            ("slices", lambda x: x[:, 1:3, ::2] + x[:, -2:, 1::2] + x[0, 2:, :3]),
            ("cat", lambda x: torch.cat([x, x[:1]]) + torch.stack([x[0], x[0].double(), x[0], x[0]]).float()),
            ("split", lambda x: x.split([1, 3], 1)[1] + x.chunk(2, 0)[1][:, :3] + x.unbind(1)[0].unsqueeze(1)[:1]),
            ("repeat", lambda x: x.repeat(2, 1, 1) + x[:1].expand(6, 4, 6) + x.tile(2).narrow(2, -6, 6).tile(2, 1, 1)),
            ("roll", lambda x: x.roll((1, -2), (0, 2)) + x.flip(1, 2) + x.roll(5)),
            ("pad", lambda x: functional.pad(x, (1, 2, 0, 1), value=3.0)[:, :, 1:]),
            ("reflect", lambda x: functional.pad(x, (1, 2), mode="reflect") + functional.pad(x, (1, 2), mode="replicate")),
            ("triangle", lambda x: x.tril(1) + x.triu(-1)),
            ("index", lambda x: x[index] + x[:, index][0].sum() + x[:, [0, 1], [2, 3]].sum() + x[[0], [1], [2]]),
            ("gather", lambda x: x.gather(1, torch.ones(3, 2, 6, dtype=torch.int64)) + x.index_select(1, index[0])),
            ("written", written),
            ("shuffle", lambda x: functional.pixel_shuffle(x.view(1, 4, 3, 6), 2) + torch.arange(12).float()),
            ("made", lambda x: x + torch.zeros(6) + torch.full((4, 6), 2.5) + torch.eye(4, 6) + torch.ones_like(x)),
        ], x)

    def test_windows_and_products(self):
        x = torch.rand(2, 4, 9, 11)
        w = torch.rand(6, 2, 3, 3)
        self.run_all([
            ("conv", lambda x: functional.conv2d(x, w, torch.ones(6), stride=2, padding=1, dilation=2, groups=2)),
            ("conv1d", lambda x: functional.conv1d(x[:, :, 0], w[:, :, 0].repeat(1, 2, 1), padding=1)),
            ("transposed", lambda x: functional.conv_transpose2d(x, w[:4], stride=2, padding=1, output_padding=1)),
            ("same", lambda x: functional.conv2d(x, w, padding="same", groups=2)),
            ("max pool", lambda x: functional.max_pool2d(x, 3, 2, 1, ceil_mode=True)),
            ("avg pool", lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
            ("avg pool by", lambda x: functional.avg_pool2d(x, 2, divisor_override=3)),
            ("padded by", lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False, divisor_override=3)),
            ("adaptive", lambda x: functional.adaptive_avg_pool2d(x, (4, 3)) + functional.adaptive_max_pool2d(x, (4, 3))),
            ("groups", lambda x: functional.group_norm(x, 2, torch.ones(4) * 2, torch.ones(4))),
            ("instance", lambda x: functional.instance_norm(x)),
            ("nearest", lambda x: functional.interpolate(x, (18, 22)) + functional.interpolate(x, scale_factor=2)),
            ("linear", lambda x: functional.interpolate(x, (5, 20), mode="bilinear")),
            ("corners", lambda x: functional.interpolate(x, (5, 20), mode="bilinear", align_corners=True)),
            ("cubic", lambda x: functional.interpolate(x, (12, 20), mode="bicubic")),
            ("einsum", lambda x: torch.einsum("bchw,bdhw->bcd", x, x) + torch.baddbmm(torch.ones(4, 4), x[0][:, :, :4].mT @ x[0][:, :, :4], torch.ones(4, 4, 4), beta=2).sum()),
            ("sample", lambda x: functional.grid_sample(x, torch.linspace(-1, 1, 24).view(1, 4, 3, 2).expand(2, -1, -1, -1), align_corners=False)),
            ("topk", lambda x: x.flatten(1).topk(3)[0]),
        ], x)

    def test_attention(self):
        x = torch.rand(2, 4, 6, 8)
        masks = {"bool": torch.ones(6, 6, dtype=torch.bool).tril(), "float": torch.rand(6, 6)}
        for name, mask in masks.items():
            self.run_all([(name, lambda x: functional.scaled_dot_product_attention(x, x * 2, x + 1, mask, scale=0.3))], x)
        hidden = torch.ones(6, 6, dtype=torch.bool)
        hidden[2] = False
        self.run_all([
            ("causal", lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True)),
            ("shared heads", lambda x: functional.scaled_dot_product_attention(x, x[:, :2], x[:, 2:], enable_gqa=True)),
            ("nothing seen", lambda x: functional.scaled_dot_product_attention(x, x, x, hidden)),
        ], x)


    def test_attention_as_gpus_have_it(self):
        x = torch.rand(2, 4, 6, 8)
        want = functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3)
        for name, arguments in (("flash", (0.0, True, False)), ("efficient", (None, False, 0.0, True)),
                                ("cudnn", (None, False, 0.0, True, False))):
            graph = torch.fx.Graph()
            given = graph.placeholder("x")
            op = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention").default
            made = graph.call_function(op, (given, given, given, *arguments), {"scale": 0.3})
            first = graph.call_function(operator.getitem, (made, 0))
            given.meta["val"] = first.meta["val"] = x
            made.meta["val"] = (x,)
            graph.output((first,))
            with self.subTest(name), torch.no_grad():
                got = backend_of_graph(torch.fx.GraphModule(nn.Module(), graph))([x])
                torch.testing.assert_close(got[0], want, rtol=1e-4, atol=1e-5)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class FromTorchTest(unittest.TestCase):
    def test_gives_a_compiled_model(self):
        module = convolutional()
        x = torch.rand(2, 3, 20, 20)
        model = tessera.from_torch(module, (x,), threads=1)
        self.assertIsInstance(model, tessera.Model)
        self.assertEqual([(t.name, t.dtype, t.shape) for t in model.inputs], [("input", "f32", (2, 3, 20, 20))])
        with torch.no_grad():
            torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(model(x.numpy()), model(x).numpy())

    def test_keeps_no_second_copy_of_the_weights(self):
        module, x = convolutional(), torch.rand(1, 3, 20, 20)
        model = tessera.from_torch(module, (x,), threads=1)
        sizes = [len(o) for o in gc.get_referents(*vars(model).values()) if isinstance(o, (bytes, str))]
        self.assertEqual([size for size in sizes if size > 1000], [])
        with self.assertRaisesRegex(TypeError, r"keeps no copy .* by save\(\) and read it by tessera.load\(\)"):
            pickle.dumps(model)
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder + "/net")
            np.testing.assert_allclose(tessera.load(folder + "/net")(x), model(x), rtol=1e-5)

    def test_overloads_that_export_keeps(self):
        class Overloads(nn.Module):
            def forward(self, x):
                return x.var(unbiased=False) + x.std(False), functional.interpolate(x, scale_factor=2)

        x = torch.rand(1, 2, 3, 4)
        torch.testing.assert_close(tessera.from_torch(Overloads().eval(), (x,), threads=1)(x), Overloads()(x),
                                   rtol=1e-4, atol=1e-5)

    def test_keywords_and_several_results(self):
        class Two(nn.Module):
            def forward(self, x, *, scale):
                return x * scale, (x + scale).sum(0)

        x, scale = torch.rand(2, 3), torch.rand(3)
        model = tessera.from_torch(Two().eval(), x, {"scale": scale}, threads=1)
        torch.testing.assert_close(model(x, scale=scale), (x * scale, (x + scale).sum(0)))

    def test_says_what_it_does_not_do(self):
        class Svd(nn.Module):
            def forward(self, x):
                return torch.linalg.svd(x)[1]

        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, x):
                self.calls.add_(1)
                return x + self.calls

        class Same(nn.Module):
            def forward(self, x):
                return x

        class Number(nn.Module):
            def forward(self, x):
                return x + 1, 3

        x = torch.rand(2, 2)
        with self.assertRaisesRegex(ValueError, "training mode; call its eval"):
            tessera.from_torch(nn.Linear(2, 2), (x,))
        with self.assertRaisesRegex(NotImplementedError, "does not convert .*svd"):
            tessera.from_torch(Svd().eval(), (x,))
        with self.assertRaisesRegex(ValueError, "the module writes to calls"):
            tessera.from_torch(Counting().eval(), (x,))
        with self.assertRaisesRegex(ValueError, "a result of the module is one of its inputs"):
            tessera.from_torch(Same().eval(), (x,))
        with self.assertRaisesRegex(ValueError, "a result of the module is one of its inputs, or no tensor"):
            tessera.from_torch(Number().eval(), (x,))
        open_rows = torch.export.export(nn.Linear(2, 2).eval(), (x,), dynamic_shapes=({0: torch.export.Dim("rows")},))
        with self.assertRaisesRegex(ValueError, "sizes must be fixed"):
            tessera.from_torch(open_rows)


class WithoutTorchTest(unittest.TestCase):
    def test_weights_that_somebody_wrote_to(self):
        class Weight:
            _version = 0

        unchanged, a, b = tessera._native.unchanged, Weight(), Weight()
        self.assertTrue(unchanged([a, 1, b], (0, 2), (a, b), (0, 0)))
        self.assertFalse(unchanged([a, 1, Weight()], (0, 2), (a, b), (0, 0)), "another tensor")
        b._version = 1
        self.assertFalse(unchanged([a, 1, b], (0, 2), (a, b), (0, 0)))
        self.assertTrue(unchanged([], (), (), ()))
        for error, arguments in ((TypeError, ((a,), (0,), (a,), (0,))), (TypeError, ([a], (0,), (a,), ())),
                                 (TypeError, ([a],)), (IndexError, ([a], (9,), (a,), (0,))),
                                 (TypeError, ([a], ("0",), (a,), (0,))), (AttributeError, ([1], (0,), (1,), (0,)))):
            with self.assertRaises(error):
                unchanged(*arguments)

    def test_the_package_needs_no_torch(self):
        import subprocess
        import sys

        code = "import sys; sys.modules['torch'] = None; import tessera\ntry: tessera.from_torch(None, ())\n" \
               "except ImportError as error: print(error)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ).stdout
        self.assertIn("torch", said)


if __name__ == "__main__":
    unittest.main()
