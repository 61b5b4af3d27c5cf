"""Models of torchvision and transformers, with random weights and small, through torch.compile(backend="tessera"): in how
many graphs, and how far from PyTorch. python torch_models.py [--time] [NAME...]; --time also compiles them with inductor
and times all three.

A model is right if its results on two inputs are within 1e-4 of PyTorch's, relative to the largest of them, and those of the
two differ by more."""
import argparse
import os
import statistics
import time
import warnings

import torch

SIDE = 64
VISION = {
    "alexnet": {}, "vgg11_bn": {}, "resnet18": {}, "resnet50": {}, "wide_resnet50_2": {}, "resnext50_32x4d": {},
    "densenet121": {}, "squeezenet1_1": {}, "mobilenet_v2": {}, "mobilenet_v3_small": {}, "mobilenet_v3_large": {},
    "shufflenet_v2_x1_0": {}, "mnasnet0_5": {}, "efficientnet_b0": {}, "efficientnet_v2_s": {}, "regnet_y_400mf": {},
    "googlenet": {"init_weights": True}, "convnext_tiny": {}, "vit_b_16": {"image_size": SIDE},
    "swin_t": {}, "swin_v2_t": {},
}
DENSE = {"segmentation.fcn_resnet50": {}, "segmentation.deeplabv3_mobilenet_v3_large": {},
         "segmentation.lraspp_mobilenet_v3_large": {}, "video.r3d_18": {}}
TEXT = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=200,
            max_position_embeddings=64)
LANGUAGE = {
    "BertModel": TEXT, "RobertaModel": {**TEXT, "pad_token_id": 1}, "ElectraModel": {**TEXT, "embedding_size": 64},
    "AlbertModel": {**TEXT, "embedding_size": 64}, "MPNetModel": TEXT,
    "DistilBertModel": dict(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=200),
    "GPT2Model": dict(n_embd=64, n_layer=2, n_head=4, vocab_size=200, n_positions=64),
    "GPTNeoXForCausalLM": TEXT, "OPTModel": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128,
                                                 vocab_size=200, max_position_embeddings=64, word_embed_proj_dim=64),
    "LlamaForCausalLM": {**TEXT, "num_key_value_heads": 2}, "MistralForCausalLM": {**TEXT, "num_key_value_heads": 2},
    "Qwen2ForCausalLM": {**TEXT, "num_key_value_heads": 2},
    "T5EncoderModel": dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=200),
    "ViTModel": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=SIDE),
    "DeiTModel": dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=SIDE),
}


def vision(name, arguments):
    import torchvision

    place = torchvision.models
    *folders, last = name.split(".")
    for folder in folders:
        place = getattr(place, folder)
    if folders[:1] == ["segmentation"]:
        arguments = {"weights_backbone": None, **arguments}
    shape = (1, 3, 8, 32, 32) if folders[:1] == ["video"] else (1, 3, SIDE, SIDE)
    return getattr(place, last)(weights=None, **arguments), (torch.rand(shape),)


class FirstResult(torch.nn.Module):
    """The first tensor of what a model of transformers returns."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x, **self.options)[0]

    options = {"return_dict": False}


class WithoutCache(FirstResult):
    options = {"return_dict": False, "use_cache": False}


def language(name, arguments):
    import transformers

    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**arguments))
    if hasattr(model.config, "image_size"):
        return FirstResult(model), (torch.rand(1, 3, SIDE, SIDE),)
    kind = WithoutCache if getattr(model.config, "use_cache", False) and "Encoder" not in name else FirstResult
    return kind(model), (torch.randint(2, 200, (1, 16)),)


def enlivened(module, args):
    """The module with statistics of batches and without weights that are all zero, so that its results depend on its
    inputs, as those of trained models do."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.05, generator=generator)
        norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        if norms:
            module.eval()
            for norm in norms:
                norm.train()
                norm.momentum = 1.0
            module(torch.cat([args[0], *[torch.rand_like(args[0]) for _ in range(15)]]))
    return module.eval()


def other(x):
    return torch.randint_like(x, 2, 200) if x.dtype == torch.int64 else torch.rand_like(x)


def tensors(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for r in (result.values() if isinstance(result, dict) else result) for t in tensors(r)]


def difference(want, got):
    return max(((a - b).abs().max() / b.abs().max().clamp(min=1e-6)).item() for a, b in zip(tensors(got), tensors(want)))


def median_ms(call, seconds=0.4):
    call()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def row(name, module, args, timed):
    torch._dynamo.reset()
    graphs, fallen = [0], []

    def counted(graph, inputs, **how):
        from tessera.torch import backend
        graphs[0] += 1
        return backend(graph, inputs, **how)

    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        enlivened(module, args)
        want = module(*args)
        start = time.perf_counter()
        fast = torch.compile(module, backend=counted)
        got = fast(*args)
        seconds = time.perf_counter() - start
        fallen = [str(w.message) for w in said if str(w.message).startswith("tessera:")]
        others = [other(x) for x in args]
        moved = difference(want, module(*others))
        off = max(difference(want, got), difference(module(*others), fast(*others)))
        text = f"{name:40} {graphs[0]} graphs, {len(fallen)} by PyTorch, off {off:.1e} of {moved:.1e}, {seconds:5.1f} s"
        if timed:
            times = [median_ms(lambda: module(*args)), median_ms(lambda: fast(*args))]
            torch._dynamo.reset()
            inductor = torch.compile(module)
            times.append(median_ms(lambda: inductor(*args)))
            text += "  eager {:.2f}, tessera {:.2f}, inductor {:.2f} ms".format(*times)
    print(text, *fallen, sep="\n    ", flush=True)
    return graphs[0] == 1 and not fallen, off < 1e-4 < moved and not fallen


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    makers = [(vision, VISION), (vision, DENSE), (language, LANGUAGE)]
    known = [(make, name, arguments) for make, models in makers for name, arguments in models.items()]
    results = []
    for make, name, arguments in known:
        if chosen.names and name not in chosen.names:
            continue
        try:
            module, args = make(name, arguments)
            results.append(row(name, module, args, chosen.time))
        except Exception as error:  # one model must not end the others
            text = (str(error).strip() or repr(error)).splitlines()
            print(f"{name:40} failed: {type(error).__name__}: {text[0][:300]}", flush=True)
            results.append((False, False))
    print(f"{len(results)} models: {sum(one for one, _ in results)} in one graph, {sum(right for _, right in results)} right")


if __name__ == "__main__":
    main()
