"""What a call from Python costs beyond one from C: python overhead.py PROGRAM [MODEL]. PROGRAM is overhead.c, built.

Both sides run in turn in processes of their own, because where a process happens to keep a model moves its time by more
than a call costs; the fastest of many short rounds in any of the processes counts."""
import json
import subprocess
import sys
import timeit

RUNS, ROUNDS, PROCESSES = 50, 400, 8


def fastest_us(function):
    return min(timeit.repeat(function, number=RUNS, repeat=ROUNDS)) / RUNS * 1e6


def times(name):
    """The rows of one process."""
    import numpy as np
    import tessera

    model = tessera.compile(name, threads=1)
    x = np.zeros(model.inputs[0].shape, np.float32)
    out = np.zeros(model.outputs[0].shape, np.float32)
    rows = {"model(x)": fastest_us(lambda: model(x)), "model(x, out=y)": fastest_us(lambda: model(x, out=out))}
    try:
        import torch
    except ImportError:
        return rows
    t = torch.zeros(model.inputs[0].shape)
    rows["model(torch tensor)"] = fastest_us(lambda: model(t))
    return rows


def main():
    if sys.argv[1] == "--once":
        print(json.dumps(times(sys.argv[2])))
        return
    program, name = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "zoo:mlp"
    rows = {}
    for _ in range(PROCESSES):
        c = subprocess.run([program, name, str(RUNS)], capture_output=True, check=True).stdout
        python = subprocess.run([sys.executable, __file__, "--once", name], capture_output=True, check=True).stdout
        for row, us in {"C": float(c), **json.loads(python)}.items():
            rows[row] = min(us, rows.get(row, us))
    for row, us in rows.items():
        print(f"{row:20} {us:8.2f} us {us - rows['C']:+8.2f}")


main()
