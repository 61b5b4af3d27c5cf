#!/usr/bin/env python3
"""Schedules timed where they will run: inside networks, in turns with the defaults.

  in_networks.py time SOURCE... --networks NAMES [--rounds 8] [--limit SECONDS] -o RUNS.jsonl
  in_networks.py records SOURCE... --runs RUNS.jsonl... -o RECORDS.jsonl
  in_networks.py table [--suite FILE | --networks NAMES] [--rounds 3] [--threads 1] [--kept FOLDER] [--compile FLAGS]

SOURCE is a folder of `tessera dataset sample zoo:NAME... --threads 1 --uniform 0 --per-task 9 --target TARGET -o FOLDER`, TARGET being
what `tessera-runner --machine` prints with cores=1 (defaults depend on the number of cores), or what `tessera dataset
export DATASET -o FILE.jsonl` writes. The first candidate of each task is its default in both. `time` makes plans of the others,
the first of every task, then the second and so on, and runs `tessera bench --plan PLAN --beside defaults --profile` with one
thread for each. `records` makes records of what that printed: a default has its median time in networks, a candidate as many
times of that as it took beside the default. `tessera dataset import RECORDS.jsonl --networks zoo:NAME...` makes a dataset of them.

`table` compiles networks with `--language shipped` and FLAGS, and times what was picked beside the defaults, both in one process.
It prints a row for each network: how many times as fast as the defaults, in the median of the rounds, the least and the most. The
first of both counts the difference of the kernels that changed alone, profiled in the network: the others are the same code, and what
disturbs them is no difference. A network of which nothing was picked is the same code. FOLDER keeps the plans; those in it are not made again.
Pin it to a quiet core (taskset). TESSERA names the program.
"""
import argparse
import collections
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

TESSERA = os.environ.get("TESSERA", "tessera")


def tessera(*args):
    return subprocess.run([TESSERA, *args], capture_output=True, text=True)


def read_sources(paths):
    """Tasks by key, candidates of each (the default first), and the target's text."""
    tasks, found, target = {}, collections.defaultdict(dict), ""
    for path in map(pathlib.Path, paths):
        lines = []
        if path.is_dir():
            manifest = json.loads((path / "manifest.json").read_text())
            target = target or manifest["target"]
            tasks.update({t["key"]: t for t in manifest["tasks"]})
            for shard in sorted(path.glob("sample-*.jsonl")):
                lines += shard.read_text().splitlines()
        else:
            lines = path.read_text().splitlines()
        for line in lines:
            row = json.loads(line)
            if row.get("kind") == "task":
                tasks[row["key"]] = row
            elif row.get("schedule") and row.get("outcome", "ok") == "ok":
                target = target or row["target"]
                found[row["task"]].setdefault(row["candidate"], row["schedule"])
    return tasks, {k: list(v.items()) for k, v in found.items()}, target


def plan_of(network, tasks, chosen, target):
    entry = lambda k, c, s: {"candidate": c, "name": tasks[k]["name"], "schedule": s.strip().split("\n"), "seconds": 0}
    return {"format": "tessera plan", "version": 2, "model": f"zoo:{network}", "target": target, "threads": 1, "decisions": {},
            "tasks": {k: entry(k, c, s) for k, (c, s) in chosen.items()}}


def beside_defaults(network, plan, threads, samples, limit, profile):
    done = tessera("bench", f"zoo:{network}", "--threads", str(threads), "--peers", "none", "--samples", str(samples), "--time-limit",
                   f"{limit}s", "--plan", str(plan), "--beside", "defaults", "--json", *(["--profile"] if profile else []))
    if done.returncode != 0:
        print(f"{plan}: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)["results"][0]


def sums_by_task(ours, others):
    a, b, calls = collections.Counter(), collections.Counter(), collections.Counter()
    for s, t in zip(ours, others):
        if s["task"] and s["task"] == t["task"]:
            a[s["task"]] += s["us"]
            b[s["task"]] += t["us"]
            calls[s["task"]] += 1
    return {k: (a[k] / calls[k], b[k] / calls[k]) for k in a}


def time_candidates(args):
    tasks, found, target = read_sources(args.source)
    start, written = time.time(), 0
    with open(args.output, "a") as out, tempfile.TemporaryDirectory() as folder:
        keys = {n: [t["key"] for t in json.loads(tessera("tasks", f"zoo:{n}", "--no-space", "--json").stdout)["tasks"]]
                for n in args.networks.split(",")}
        for i in range(1, args.rounds + 1):
            for network, own in keys.items():
                chosen = {k: found[k][i] for k in own if len(found.get(k, [])) > i}
                if not chosen or (args.limit and time.time() - start > args.limit):
                    continue
                plan = pathlib.Path(folder) / f"{network}-{i}.plan"
                plan.write_text(json.dumps(plan_of(network, tasks, chosen, target)))
                if r := beside_defaults(network, plan, 1, 6, 2, True):
                    times = sums_by_task(r["profile"], r["beside_profiles"][0])
                    row = {"network": network, "us": r["median_us"], "default_us": r["peers"][0]["median_us"],
                           "tasks": {k: [chosen[k][0] if k in chosen else None, *t] for k, t in times.items()}}
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    written += 1
    print(f"{args.output}: {written} runs")


def write_records(args):
    tasks, found, target = read_sources(args.source)
    usual, ratios = collections.defaultdict(list), collections.defaultdict(lambda: collections.defaultdict(list))
    for path in args.runs:
        for line in open(path):
            for key, (candidate, us, default_us) in json.loads(line)["tasks"].items():
                usual[key].append(default_us * 1e-6)
                if candidate:
                    ratios[key][candidate].append(us / default_us)
    count = 0
    with open(args.output, "w") as out:
        for key in (k for k in usual if k in tasks and found.get(k)):
            default_s = statistics.median(usual[key])
            task = {k: tasks[key][k] for k in ("key", "name", "definition")}
            out.write(json.dumps({"kind": "task", **task}) + "\n")
            for i, (candidate, schedule) in enumerate(found[key]):
                if i > 0 and candidate not in ratios[key]:
                    continue
                seconds = default_s * (statistics.median(ratios[key][candidate]) if i > 0 else 1)
                out.write(json.dumps({"kind": "record", "task": key, "target": target, "candidate": candidate, "schedule": schedule,
                                      "outcome": "ok", "seconds": seconds, "quiet": True}) + "\n")
                count += 1
    print(f"{args.output}: {count} records of {len(usual)} tasks")


def networks_of(args):
    if args.networks:
        return args.networks.split(",")
    lines = pathlib.Path(args.suite).read_text().splitlines()
    return [line.split(":", 1)[1].strip() for line in lines if line.startswith("zoo:")]


def by_changed(result, changed):
    """Times as fast as the defaults if only the kernels of the tasks in `changed` differed."""
    usual = sum(s["us"] for s in result["beside_profiles"][0])
    saved = sum(t["us"] - s["us"] for s, t in zip(result["profile"], result["beside_profiles"][0]) if s["task"] in changed)
    return usual / (usual - saved)


def spread(values):
    text = f"{statistics.median(values):.3f}"
    return text if len(values) == 1 else f"{text} ({min(values):.3f}-{max(values):.3f})"


def table(args):
    kept = pathlib.Path(args.kept or tempfile.mkdtemp())
    kept.mkdir(parents=True, exist_ok=True)
    print("| network | tasks changed | defaults, ms | rounds | by the kernels that changed | whole model |\n|---|---:|---:|---:|---:|---:|",
          flush=True)
    for network in networks_of(args):
        plan = kept / f"{network}.plan"
        if not plan.exists():
            with tempfile.TemporaryDirectory() as folder:
                done = tessera("compile", f"zoo:{network}", "-o", folder, "--emit", "a", "--weights", "file", "--threads",
                               str(args.threads), "--language", "shipped", "--picked", str(plan), *shlex.split(args.compile))
                if done.returncode != 0:
                    print(f"{network}: {done.stderr.strip()[-200:]}", file=sys.stderr)
                    continue
        changed = json.loads(plan.read_text())["tasks"]
        if not changed:
            print(f"| {network} | 0 | | | 1 | 1 |", flush=True)
            continue
        rows = [beside_defaults(network, plan, args.threads, args.samples, args.limit or 10, True) for _ in range(args.rounds)]
        rows = [r for r in rows if r]
        if rows:
            ms = statistics.median(r["peers"][0]["median_us"] for r in rows) / 1e3
            print(f"| {network} | {len(changed)} | {ms:.2f} | {len(rows)} | {spread([by_changed(r, changed) for r in rows])} | "
                  f"{spread([r['peers'][0]['ratio'] for r in rows])} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    times = commands.add_parser("time")
    times.add_argument("source", nargs="+")
    times.add_argument("--networks", required=True)
    times.add_argument("--rounds", type=int, default=8)
    times.add_argument("--limit", type=float, default=0)
    times.add_argument("-o", "--output", required=True)
    times.set_defaults(run=time_candidates)
    records = commands.add_parser("records")
    records.add_argument("source", nargs="+")
    records.add_argument("--runs", nargs="+", required=True)
    records.add_argument("-o", "--output", required=True)
    records.set_defaults(run=write_records)
    zoo = commands.add_parser("table")
    zoo.add_argument("--suite", default="bench/suites/zoo.txt")
    zoo.add_argument("--networks", default="")
    zoo.add_argument("--rounds", type=int, default=3)
    zoo.add_argument("--threads", type=int, default=1)
    zoo.add_argument("--samples", type=int, default=30)
    zoo.add_argument("--limit", type=float, default=0)
    zoo.add_argument("--kept", default="")
    zoo.add_argument("--compile", default="")
    zoo.set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
