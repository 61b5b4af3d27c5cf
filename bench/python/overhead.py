"""What a call from Python costs beyond one from C: python overhead.py PROGRAM [MODEL]. PROGRAM is overhead.c, built. Both
take the fastest of 1000 short rounds, in turn, so that other work on the machine disturbs neither more than the other."""
import subprocess
import sys
import timeit

import numpy as np
import tessera

RUNS = 50


def fastest_us(function):
    return min(timeit.repeat(function, number=RUNS, repeat=1000)) / RUNS * 1e6


def main():
    program = sys.argv[1]
    name = sys.argv[2] if len(sys.argv) > 2 else "zoo:mlp"
    model = tessera.compile(name, threads=1)
    x = np.zeros(model.inputs[0].shape, np.float32)
    out = np.zeros(model.outputs[0].shape, np.float32)
    rows = {"C": [], "model(x)": [], "model(x, out=y)": []}
    try:
        import torch
        t = torch.zeros(model.inputs[0].shape)
        rows["model(torch tensor)"] = []
    except ImportError:
        t = None
    for _ in range(3):
        rows["C"].append(float(subprocess.run([program, name, str(RUNS)], capture_output=True, check=True).stdout))
        rows["model(x)"].append(fastest_us(lambda: model(x)))
        rows["model(x, out=y)"].append(fastest_us(lambda: model(x, out=out)))
        if t is not None:
            rows["model(torch tensor)"].append(fastest_us(lambda: model(t)))
    for row, times in rows.items():
        print(f"{row:20} {min(times):8.2f} us {min(times) - min(rows['C']):+8.2f}")


main()
