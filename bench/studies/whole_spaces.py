#!/usr/bin/env python3
"""How soon searches that measure find fast candidates in whole spaces: sums up runs of single tasks.

  whole_spaces.py RUN.json... [--complete] [--across] [--json]

A run is what `tessera lm eval --measure --task KEY --seeds 1 --seed SEED --trials 1,2,4,10,32,64 --policy ... --json` prints:
what each search would take after so many trials: up to three candidates that were the fastest by its own times, and the default,
all timed again in turns. Keys of tasks of the hold-out networks are in whole_spaces.txt. The best known of a task is the fastest
of its run; with `--across` that of all its runs, whose times compare by that of the default in each of them. Printed are shares
of its speed, the geometric mean over tasks, then over seeds, with the least and the most of the seeds; and the fewest trials
after which a search has 0.90, 0.95 and 0.98.
With `--complete` only tasks with as many seeds as any other count. All runs must have the same policies and trials.
"""
import argparse
import collections
import json
import math
import pathlib
import statistics
import sys

SHARES = 0.90, 0.95, 0.98
NOTHING = 0.01  # as `lm eval` counts a search that has found nothing


def read(paths):
    """By task and seed: what policies take after trials, in times of the default."""
    runs, policies, trials = collections.defaultdict(dict), None, None
    for path in map(pathlib.Path, paths):
        run = json.loads(path.read_text())
        seed = path.stem.split(".")[-1]
        names, numbers = [p["name"] for p in run["policies"]], run["policies"][0]["trials"]
        if policies is None:
            policies, trials = names, numbers
        if (names, numbers) != (policies, trials):
            sys.exit(f"{path} has other policies or trials than {paths[0]}")
        for task in run["task_times"]:
            default = task["default_seconds"]
            if default > 0:
                found = [[s / default for s in policy[0]] for policy in task["seconds"]]
                runs[task["key"]][seed] = task["best_seconds"] / default, found
    return runs, policies, trials


def geometric(logs):
    return math.exp(statistics.mean(logs))


def summary(runs, policies, trials, across):
    seeds = sorted({s for of_task in runs.values() for s in of_task})
    known = {}
    for key, of_task in runs.items():
        least = min(best for best, _ in of_task.values())
        known.update({(key, seed): least if across else best for seed, (best, _) in of_task.items()})
    out = {"tasks": len(runs), "seeds": len(seeds), "trials": trials, "policies": {}}
    out["default"] = geometric([math.log(k) for k in known.values()])
    for p, policy in enumerate(policies):
        rows = []
        for n in range(len(trials)):
            by_seed = []
            for seed in seeds:
                logs = [math.log(known[key, seed] / of_task[seed][1][p][n] if of_task[seed][1][p][n] > 0 else NOTHING)
                        for key, of_task in runs.items() if seed in of_task]
                by_seed.append(geometric(logs))
            rows.append({"share": geometric(map(math.log, by_seed)), "low": min(by_seed), "high": max(by_seed)})
        needed = {str(s): next((t for t, r in zip(trials, rows) if r["share"] >= s), None) for s in SHARES}
        out["policies"][policy] = {"rows": rows, "needed": needed}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--across", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs, policies, trials = read(args.runs)
    if not runs:
        sys.exit("no task with a time of its default in these runs")
    if args.complete:
        most = max(map(len, runs.values()))
        runs = {key: of_task for key, of_task in runs.items() if len(of_task) == most}
    result = summary(runs, policies, trials, args.across)
    if args.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{result['tasks']} tasks, {result['seeds']} seeds; default schedules: {result['default']:.3f} of the best known speed")
    print("| search | " + " | ".join(map(str, trials)) + " | " + " | ".join(f"{s:.2f} after" for s in SHARES) + " |")
    for policy, found in result["policies"].items():
        cells = [f"{r['share']:.3f}" if r["high"] - r["low"] < 0.001 else f"{r['share']:.3f} ({r['low']:.3f}-{r['high']:.3f})"
                 for r in found["rows"]]
        needed = [str(n or f"more than {trials[-1]}") for n in found["needed"].values()]
        print(f"| {policy} | " + " | ".join(cells + needed) + " |")


if __name__ == "__main__":
    main()
