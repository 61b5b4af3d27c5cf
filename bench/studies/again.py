#!/usr/bin/env python3
"""What noise leaves to an oracle: the fastest records of a dataset, measured again.

  again.py select DATASET RECORDS.jsonl -o FOLDER --machine TEXT [--holdout NETWORKS] [--fastest 16] [--shards 16] [--losers] [--tasks N]
  again.py judge DATASET RECORDS.jsonl AGAIN.jsonl... --machine TEXT [--trials 1,2,4,10] [--json]
  again.py merge DATASET RECORDS.jsonl AGAIN.jsonl... --machine TEXT -o MERGED
  again.py part AGAIN.jsonl --parts N -o PREFIX

RECORDS.jsonl is what `tessera dataset export DATASET -o RECORDS.jsonl` writes. `select` writes a sample as `tessera dataset
sample` does: `tessera dataset build FOLDER` and `tessera-runner FOLDER/bundle-*.tsb -o AGAIN.jsonl` measure it on the
machine in question. `judge` lets an oracle that knows the second measurement of every candidate (of several the least)
propose in its order, and prints which share of the best recorded speed it reaches after 1, 2, 4 and 10 trials, in the
geometric mean over tasks, as `tessera lm eval` does of searches. The candidates that were not measured again are slower
than all of these by their records, so that the oracle does at least as well among these as it would among all.
With `--fastest 0 --losers` `select` takes all that were timed, also those whose timing was cut short. `merge` then writes a copy of the
dataset in which each of them has the median of its new times, one file of them a pass, less what all candidates of a task share in
a pass.
`tessera dataset measure FOLDER --db DB` and `tessera db export --db DB -o AGAIN.jsonl` do the same, also on GPUs, with all samples
taken in turns: `part` makes N passes of them, PREFIX-1.jsonl and so on, each with the medians of its part of the samples.
"""
import argparse
import gzip
import json
import math
import pathlib
import statistics
import sys
import zlib

TENSET5 = ["resnet50", "mobilenet_v2", "resnext50_32x4d", "bert_tiny", "bert_base"]


def records_of(path, machine):
    tasks, records = {}, []
    with open(path) as file:
        for line in file:
            row = json.loads(line)
            if row["kind"] == "task":
                tasks[row["key"]] = row
            elif row["kind"] == "record" and machine in row.get("target", ""):
                records.append(row)
    return tasks, records


def held_out(folder, networks):
    names = TENSET5 if networks == "tenset5" else networks.split(",")
    known = json.loads((pathlib.Path(folder) / "dataset.json").read_text())["networks"]
    found = {n["name"]: n["weights"] for n in known}
    absent = [n for n in names if n not in found]
    if absent:
        sys.exit(f"{folder} has no network {', '.join(absent)}")
    return {key for n in names for key in found[n]}


def by_task(records, keys, least, losers=False):
    """Timed to the end, or all with `losers`, the fastest first (lines leave zeroes out); tasks with as many timed records as
    `lm eval` asks for."""
    out, timed = {}, {}
    for r in records:
        if r["task"] not in keys or r.get("seconds", 0) <= 0:
            continue
        timed[r["task"]] = timed.get(r["task"], 0) + 1
        if (losers or r["outcome"] == "ok") and r.get("schedule"):
            out.setdefault(r["task"], []).append(r)
    return {k: sorted(v, key=lambda r: r["seconds"]) for k, v in sorted(out.items()) if timed[k] >= least}


def spread(records, keys, most):
    """The tasks that `lm eval --tasks` takes of those with records."""
    known = sorted({r["task"] for r in records} & keys)
    if not most or len(known) <= most:
        return set(known)
    return {known[i * len(known) // most] for i in range(most)}


def select(args):
    tasks, records = records_of(args.records, args.machine)
    keys = spread(records, held_out(args.dataset, args.holdout), args.tasks)
    chosen = by_task(records, keys, args.least, args.losers)
    if not chosen:
        sys.exit(f"no records of {args.machine}")
    target = {(r["target"], r.get("threads", 1)) for rs in chosen.values() for r in rs}
    if len(target) != 1:
        sys.exit(f"{args.machine} names several machines: {sorted(target)}")
    target, threads = target.pop()
    folder = pathlib.Path(args.output)
    folder.mkdir(parents=True)
    listed, lines = [], [[] for _ in range(args.shards)]
    for number, (key, rs) in enumerate(chosen.items()):
        shard, t = number % args.shards, tasks[key]
        listed.append({"key": key, "name": t["name"], "flops": t.get("flops", 0.0), "bytes": t.get("bytes", 0.0),
                       "shard": shard, "definition": t["definition"]})
        for trial, r in enumerate(rs[:args.fastest or None]):
            lines[shard].append(json.dumps({"task": key, "trial": trial, "candidate": r["candidate"],
                                            "schedule": r["schedule"]}, separators=(",", ":")))
    manifest = {"format": "tessera-sample", "version": 3, "target": target, "threads": threads, "seed": 1,
                "per_task": args.fastest or max(map(len, chosen.values())), "uniform": 0.0, "shards": args.shards, "subjects": [args.dataset],
                "tasks": listed}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    for shard, text in enumerate(lines):
        (folder / f"sample-{shard:04}.jsonl").write_text("".join(line + "\n" for line in text))
    print(f"{sum(map(len, lines))} candidates of {len(chosen)} tasks: {folder}")


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def judge(args):
    trials = [int(n) for n in args.trials.split(",")]
    _, records = records_of(args.records, args.machine)
    chosen = by_task(records, held_out(args.dataset, args.holdout), args.least)
    again = {}
    for path in args.again:
        for r in records_of(path, "")[1]:
            if r["outcome"] == "ok" and r.get("seconds", 0) > 0:
                place = r["task"], r["schedule"]
                again[place] = min(r["seconds"], again.get(place, math.inf))
    logs = {n: [] for n in trials}
    changes, kept_first, tasks, others = [], 0, 0, []
    for key, rs in chosen.items():
        best = rs[0]["seconds"]
        twice = [(again[key, r["schedule"]], r["seconds"]) for r in rs if (key, r["schedule"]) in again]
        if len(twice) < 2:
            continue
        tasks += 1
        # The two machines or days may differ by a factor that all candidates share.
        factor = statistics.median(math.log(b / a) for a, b in twice)
        changes += [abs(math.log(b / a) - factor) for a, b in twice]
        order = sorted(twice)
        kept_first += order[0][1] == best
        others.append(order[0][0] / next(a for a, b in twice if b == min(b for _, b in twice)))
        for n in trials:
            logs[n].append(math.log(best / min(b for _, b in order[:n])))
    share = {n: math.exp(statistics.mean(v)) for n, v in logs.items()}
    out = {"tasks": tasks, "candidates": len(changes), "share": share,
           "best_of_records_is_fastest_again": kept_first / max(1, tasks),
           "speed_again_of_best_recorded": math.exp(statistics.mean(map(math.log, others))),
           "differences": {p: quantile(changes, p) for p in (0.5, 0.75, 0.9, 0.95)}}
    if args.json:
        print(json.dumps(out, indent=1))
        return
    print(f"{tasks} tasks, {len(changes)} candidates measured again")
    print("an oracle of the second measurement, share of the best recorded speed: "
          + ", ".join(f"{n}: {s:.3f}" for n, s in share.items()))
    print(f"the fastest record is the fastest again in {100 * out['best_of_records_is_fastest_again']:.0f} % of tasks, "
          f"and {out['speed_again_of_best_recorded']:.3f} times as fast as the fastest then")
    shown = [f"{100 * math.expm1(d):.1f} % ({p})" for p, d in out["differences"].items()]
    print(f"two times of one candidate differ by {', '.join(shown)} (share of candidates)")


def passes_of(paths, chosen):
    """By task, then by schedule: what each file has of it, as (timed to the end, logarithm of the seconds)."""
    out = {}
    for number, path in enumerate(paths):
        for r in records_of(path, "")[1]:
            if r["outcome"] in ("ok", "censored") and r.get("seconds", 0) > 0 and r["task"] in chosen:
                mine = out.setdefault(r["task"], {}).setdefault(r["schedule"], {})
                mine[number] = r["outcome"] == "ok", math.log(r["seconds"])
    return out


def settled(schedules):
    """The median over passes of each candidate, less what all candidates of a pass share; cut short where most passes were."""
    middle = {s: statistics.median(t for _, t in passes.values()) for s, passes in schedules.items()}
    shared = {}
    for s, passes in schedules.items():
        if len(passes) > 1 and all(ended for ended, _ in passes.values()):
            for number, (_, t) in passes.items():
                shared.setdefault(number, []).append(t - middle[s])
    shared = {number: statistics.median(v) for number, v in shared.items()}
    return {s: (2 * sum(ended for ended, _ in passes.values()) >= len(passes),
                math.exp(statistics.median(t - shared.get(n, 0.0) for n, (_, t) in passes.items())))
            for s, passes in schedules.items()}


def rewrite(folder, output, changes):
    """A copy of a dataset in which records, by their number, have other times."""
    folder, output = pathlib.Path(folder), pathlib.Path(output)
    output.mkdir(parents=True)
    manifest, number = json.loads((folder / "dataset.json").read_text()), 0
    for entry in manifest["files"]:
        data = (folder / entry["name"]).read_bytes()
        if entry["name"].startswith("records-"):
            lines = gzip.decompress(data).decode().splitlines()
            for i, line in enumerate(lines):
                if number in changes:
                    lines[i] = json.dumps({**json.loads(line), **changes[number]}, separators=(",", ":"))
                number += 1
            data = gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0)
            entry["bytes"], entry["crc32"] = len(data), f"{zlib.crc32(data):08x}"
        (output / entry["name"]).write_bytes(data)
    (output / "dataset.json").write_text(json.dumps(manifest, indent=1) + "\n")


def merge(args):
    _, records = records_of(args.records, "")
    mine = [r for r in records if args.machine in r["target"]]
    chosen = by_task(mine, held_out(args.dataset, args.holdout), args.least, losers=True)
    times = {key: settled(schedules) for key, schedules in passes_of(args.again, chosen).items()}
    changes = {}
    for number, r in enumerate(records):
        if args.machine in r["target"] and r["schedule"] in times.get(r["task"], {}):
            ended, seconds = times[r["task"]][r["schedule"]]
            changes[number] = {"seconds": float(f"{seconds:.8g}"), "outcome": "ok" if ended else "censored", "quiet": True}
    whole = sum(all(r["schedule"] in times.get(key, {}) for r in rs) for key, rs in chosen.items())
    rewrite(args.dataset, args.output, changes)
    print(f"{len(changes)} candidates, all of {whole} of {len(chosen)} tasks: {args.output}")


def part(args):
    rows = [json.loads(line) for line in open(args.again)]
    for number in range(args.parts):
        with open(f"{args.output}-{number + 1}.jsonl", "w") as out:
            for r in rows:
                samples = r.get("samples_s", [])
                some = samples[number * len(samples) // args.parts:(number + 1) * len(samples) // args.parts]
                if some:
                    r = {**r, "samples_s": some, "seconds": statistics.median(some)}
                out.write(json.dumps(r, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, run in (("select", select), ("judge", judge), ("merge", merge)):
        sub = commands.add_parser(name)
        sub.set_defaults(run=run)
        sub.add_argument("dataset")
        sub.add_argument("records")
        if name != "select":
            sub.add_argument("again", nargs="+")
        if name != "judge":
            sub.add_argument("-o", "--output", required=True)
        if name == "judge":
            sub.add_argument("--trials", default="1,2,4,10")
            sub.add_argument("--json", action="store_true")
        elif name == "select":
            sub.add_argument("--fastest", type=int, default=16)
            sub.add_argument("--shards", type=int, default=16)
            sub.add_argument("--tasks", type=int, default=0)
            sub.add_argument("--losers", action="store_true")
        sub.add_argument("--machine", required=True)
        sub.add_argument("--holdout", default="tenset5")
        sub.add_argument("--least", type=int, default=32)
    parts = commands.add_parser("part")
    parts.set_defaults(run=part)
    parts.add_argument("again")
    parts.add_argument("--parts", type=int, default=4)
    parts.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
