#!/usr/bin/env python3
"""A search policy of one's own: hill climbing with restarts.

    tessera tune zoo:squeezenet1_1 --budget 2m --policy exec:examples/own/policy.py

One line of JSON comes in, one goes out (docs/reference/search.md). Half of a batch mutates the fastest candidates known,
the rest is drawn; a cost model orders both where there is one.
"""
import json
import sys


def ask(**question):
    print(json.dumps(question), flush=True)
    return json.loads(sys.stdin.readline())


def propose(known, count):
    parents = sorted(known, key=known.get)[:8]
    drawn = ask(ask="sample", count=2 * count)["candidates"]
    if parents:
        mutated = ask(ask="mutate", candidates=[parents[i % len(parents)] for i in range(2 * count)])["candidates"]
        drawn = [c for pair in zip(mutated, drawn) for c in pair if c]
    fresh = list(dict.fromkeys(c for c in drawn if c not in known))
    scores = ask(ask="score", candidates=fresh)["scores"]
    if scores:
        fresh = [c for _, c in sorted(zip(scores, fresh), reverse=True)]
    return fresh[:count]


def main():
    searches = {}  # by number: seconds by candidate
    for line in sys.stdin:
        message = json.loads(line)
        reply = {}
        if message["do"] == "open":
            searches[message["search"]] = {}
        elif message["do"] == "propose":
            reply["candidates"] = propose(searches[message["search"]], message["count"])
        elif message["do"] == "observe":
            known = searches[message["search"]]
            for result in message["results"]:
                known[result["candidate"]] = result["seconds"] or float("inf")  # null: it failed
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
