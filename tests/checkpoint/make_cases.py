#!/usr/bin/env python3
"""Writes tests/checkpoint/cases.json: config.json of tiny models as the package transformers saves it, names and types of
their tensors, and the logits that it computes. The weights themselves follow from the names (weights() here and in
tiny_folder.h).

usage: tests/checkpoint/make_cases.py [--keep FOLDER]   (needs pip install torch transformers safetensors)
"""
import argparse
import json
import math
import pathlib
import tempfile

import torch
import transformers
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = [(7 * i * i + 3 * i) % 40 for i in range(24)]
SMALL = dict(vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0],
            "original_max_position_embeddings": 64, "partial_rotary_factor": 0.5}
CASES = [
    ("llama", "llama", "bfloat16", dict(tie_word_embeddings=False, rope_parameters=LLAMA3)),
    ("llama with biases", "llama", "float16",
     dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
          rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0})),
    ("mistral", "mistral", "float32", dict(sliding_window=32, head_dim=12)),
    ("qwen2", "qwen2", "bfloat16", dict(tie_word_embeddings=True)),
    ("qwen3", "qwen3", "float32", dict(head_dim=12, tie_word_embeddings=False)),
    ("gemma", "gemma", "bfloat16", dict(head_dim=16, num_key_value_heads=1)),
    ("gemma2", "gemma2", "float32",
     dict(head_dim=12, query_pre_attn_scalar=20, sliding_window=5, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    ("gemma3", "gemma3_text", "float32",
     dict(head_dim=12, num_hidden_layers=7, query_pre_attn_scalar=20, sliding_window=5,
          rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0},
                           "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}})),
    ("smollm3", "smollm3", "bfloat16", dict(num_hidden_layers=5, rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    ("phi3 with a window", "phi3", "float32", dict(sliding_window=7)),
    ("phi3 with long positions", "phi3", "bfloat16",
     dict(max_position_embeddings=256, original_max_position_embeddings=64, rope_parameters=LONGROPE)),
]


def weights(name, shape, norm_base):
    """Multiples of a power of two that every type of the cases holds exactly."""
    state = 2166136261
    for byte in name.encode():
        state = ((state ^ byte) * 16777619) % 2**32
    out = []
    for _ in range(math.prod(shape)):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(norm_base + ((state >> 27) - 16) / 32 if "norm" in name else ((state >> 25) - 64) / 256)
    return torch.tensor(out, dtype=torch.float32).reshape(shape)


def make(name, model_type, dtype, options, folder):
    config = AutoConfig.for_model(model_type, **{**SMALL, **options})
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    norm_base = 0 if model_type.startswith("gemma") else 1
    with torch.no_grad():
        for key, value in model.state_dict().items():
            value.copy_(weights("model.embed_tokens.weight" if config.tie_word_embeddings and key == "lm_head.weight" else key,
                                value.shape, norm_base))
        logits = model(torch.tensor([TOKENS])).logits[0]
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "pt") as saved:
        tensors = {key: {"dtype": saved.get_slice(key).get_dtype(), "shape": saved.get_slice(key).get_shape()} for key in saved.keys()}
    rows = {str(i): [round(float(v), 6) for v in logits[i]] for i in (0, 11, 23)}
    return {"name": name, "config": json.loads((folder / "config.json").read_text()), "norm_base": norm_base, "tensors": tensors,
            "logits": rows}


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--keep", type=pathlib.Path, help="leave the folders of the models in here")
    keep = args.parse_args().keep
    with tempfile.TemporaryDirectory() as scratch:
        root = keep or pathlib.Path(scratch)
        cases = [make(*case, root / case[0].replace(" ", "_")) for case in CASES]
    out = {"transformers": transformers.__version__, "tokens": TOKENS, "cases": cases}
    text = json.dumps(out, separators=(",", ":")).replace('{"name"', '\n{"name"')
    (HERE / "cases.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
