"""Trains the model of this folder on the 1,797 hand-written digits of scikit-learn and writes, into the folder given:
digits.onnx     u8 pictures [batch, 1, 8, 8] of ink from 0 to 16 -> probabilities [batch, 10]
held_out.npz    the fifth of the pictures that it was not trained on, and what they show
digit.npy       one of those pictures
Needs scikit-learn, torch and onnx: python train.py examples/digits"""
import os
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from torch import nn

EPOCHS, BATCH, LEAST_ACCURACY = 60, 64, 0.95


def split(digits, seed=0):
    """Pictures and labels: four fifths to train on, and the rest."""
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images, labels = digits.images.astype(np.uint8)[:, None][order], digits.target.astype(np.uint8)[order]
    cut = len(order) // 5
    return (images[cut:], labels[cut:]), (images[:cut], labels[:cut])


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 10))


def train(module, images, labels):
    x, y = torch.from_numpy(images).float() / 16, torch.from_numpy(labels).long()
    optimizer = torch.optim.AdamW(module.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()
    module.eval()


def as_onnx(module):
    first, second, last = module[0], module[2], module[7]
    weights = {"w1": first.weight, "b1": first.bias, "w2": second.weight, "b2": second.bias, "w3": last.weight,
               "b3": last.bias, "most": torch.tensor(16.0)}
    nodes = [
        helper.make_node("Cast", ["picture"], ["ink"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["ink", "most"], ["x"]),
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["scores"], transB=1),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("picture", TensorProto.UINT8, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(w.detach().numpy(), name) for name, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def main():
    folder = sys.argv[1]
    torch.manual_seed(0)
    (images, labels), (held, answers) = split(load_digits())
    module = network()
    train(module, images, labels)
    with torch.no_grad():
        found = module(torch.from_numpy(held).float() / 16).argmax(1).numpy()
    accuracy = float((found == answers).mean())
    print(f"{accuracy:.4f} of {len(held)} pictures that were held out are named right")
    if accuracy < LEAST_ACCURACY:
        sys.exit(f"that is less than {LEAST_ACCURACY}")
    with open(os.path.join(folder, "digits.onnx"), "wb") as file:
        file.write(as_onnx(module))
    np.savez_compressed(os.path.join(folder, "held_out.npz"), picture=held, answer=answers)
    one = int(np.flatnonzero((answers == 7) & (found == 7))[0])
    np.save(os.path.join(folder, "digit.npy"), held[one:one + 1])


if __name__ == "__main__":
    main()
