#!/usr/bin/env python3
"""A cost model of one's own, trained in PyTorch on records of Tessera. To be read from top to bottom, and to be changed.

    tessera dataset export data/near-defaults -o features --format npz
    examples/own/train_torch.py train data/near-defaults features -o mlp.pt
    tessera tune zoo:squeezenet1_1 --budget 2m --cost-model "exec:examples/own/train_torch.py serve mlp.pt"

The export has what a candidate looks like, the dataset how long it took, both in the same order.
"""
import argparse
import glob
import gzip
import json
import pathlib
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    sys.exit(f"train_torch.py: {missing}; pip install numpy torch")


# 1. The data. A candidate is a table: one row of numbers for each statement of its code. The tables of a shard lie behind each
#    other in `rows`; table i is rows[begin[i]:begin[i + 1]].

def read_tables(folder):
    manifest = json.loads((pathlib.Path(folder) / "statement.json").read_text())
    for shard in manifest["shards"]:
        with np.load(pathlib.Path(folder) / shard["file"]) as f:
            rows, begin, readable = f["rows"], f["begin"], f["readable"]
        for i in range(len(begin) - 1):
            yield squashed(rows[begin[i]:begin[i + 1]]) if readable[i] else None


def read_seconds(folder):
    """(task, machine), and the time; 0: the candidate failed."""
    for path in sorted(glob.glob(f"{folder}/records-*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for record in map(json.loads, lines):
                yield (record["task"], record["machine"]), record["seconds"]


def squashed(rows):
    """Counts and bytes reach from 1 to 1e12: their logarithms are fit for a network."""
    rows = np.asarray(rows, np.float32)
    return np.sign(rows) * np.log1p(np.abs(rows))


def read_groups(dataset, features):
    """The candidates of each task on each machine, which compare with each other alone: tables, and speeds beside the best."""
    groups, records, tables = {}, list(read_seconds(dataset)), list(read_tables(features))
    if len(records) != len(tables):
        sys.exit(f"train_torch.py: {features} is not an export of {dataset}: {len(tables)} tables of {len(records)} records")
    for (key, seconds), table in zip(records, tables):
        if table is not None and seconds > 0:
            groups.setdefault(key, []).append((table, seconds))
    out = {}
    for key, found in groups.items():
        best = min(seconds for _, seconds in found)
        out[key] = [t for t, _ in found], torch.tensor([best / s for _, s in found])
    return {key: group for key, group in out.items() if len(group[0]) > 1}


# 2. The network: each row is encoded by itself, the rows of a candidate are added up (TenSet's MLP).

class Mlp(torch.nn.Module):
    def __init__(self, columns, hidden=128):
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("deviation", torch.ones(columns))
        self.encode = torch.nn.Sequential(torch.nn.Linear(columns, hidden), torch.nn.ReLU(),
                                          torch.nn.Linear(hidden, hidden), torch.nn.ReLU())
        self.score = torch.nn.Sequential(torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1))

    def forward(self, tables):
        """One score for each table, higher is faster."""
        rows = (torch.from_numpy(np.concatenate(tables)) - self.mean) / self.deviation
        of = torch.repeat_interleave(torch.arange(len(tables)), torch.tensor([len(t) for t in tables]))
        encoded = self.encode(rows)
        return self.score(torch.zeros(len(tables), encoded.shape[1]).index_add(0, of, encoded)).squeeze(1)


# 3. Training: of every pair of a task the faster one should score higher.

def pairs_of(speeds):
    return (speeds[:, None] > speeds[None, :] * 1.001).nonzero(as_tuple=True)


def train(args):
    torch.manual_seed(args.seed)
    groups = read_groups(args.dataset, args.features)
    # Tasks that are tested are not learned from, on any machine.
    tested = {key for key in groups if key[0] % 5 == 0}
    learned = [group for key, group in groups.items() if key not in tested]
    if not learned:
        sys.exit(f"train_torch.py: {args.dataset} has too few tasks")
    rows = np.concatenate([table for tables, _ in learned for table in tables])
    model = Mlp(rows.shape[1])
    model.mean = torch.from_numpy(rows.mean(0))
    model.deviation = torch.from_numpy(rows.std(0) + 1e-3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for i in torch.randperm(len(learned)).tolist():
            tables, speeds = learned[i]
            kept = torch.randperm(len(tables))[:128]
            scores = model([tables[k] for k in kept])
            faster, slower = pairs_of(speeds[kept])
            if len(faster) == 0:
                continue
            loss = torch.nn.functional.softplus(scores[slower] - scores[faster]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / len(learned)
        print(f"epoch {epoch + 1}: loss {total:.4f}", file=sys.stderr)
    torch.save({"columns": rows.shape[1], "state": model.state_dict()}, args.output)
    print(json.dumps({"learned": len(learned), "tested": len(tested),
                      "pairwise": pairwise(model, [groups[key] for key in tested])}))


def pairwise(model, groups):
    """The share of pairs in the right order; None: nothing was tested."""
    right = count = 0
    with torch.no_grad():
        for tables, speeds in groups:
            scores = model(tables)
            faster, slower = pairs_of(speeds)
            right += (scores[faster] > scores[slower]).sum().item()
            count += len(faster)
    return right / count if count else None


# 4. Use: `tune` starts the program and asks for scores, a line of JSON each (docs/reference/search.md).

def serve(args):
    torch.set_num_threads(1)  # the other cores are measuring
    saved = torch.load(args.model)
    model = Mlp(saved["columns"])
    model.load_state_dict(saved["state"])
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "start":
            columns = len(message["rows"]["statement"])
            if columns != saved["columns"]:
                sys.exit(f"{args.model}: {saved['columns']} columns, not {columns}: export and train again")
            reply = {"rows": "statement"}
        else:
            with torch.no_grad():
                reply = {"scores": model([squashed(table) for table in message["candidates"]]).tolist()}
        print(json.dumps(reply), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    learn = commands.add_parser("train", help="fit a network to a dataset and its export")
    learn.add_argument("dataset")
    learn.add_argument("features")
    learn.add_argument("-o", "--output", required=True)
    learn.add_argument("--epochs", type=int, default=20)
    learn.add_argument("--seed", type=int, default=1)
    learn.set_defaults(run=train)
    use = commands.add_parser("serve", help="answer `tessera tune`")
    use.add_argument("model")
    use.set_defaults(run=serve)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
