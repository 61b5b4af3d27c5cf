#!/usr/bin/env python3
"""A cost model of one's own: the fewer cache lines the innermost loops touch, the better.

    tessera tune zoo:squeezenet1_1 --budget 2m --cost-model exec:examples/own/cost_model.py

One line of JSON comes in, one goes out (docs/reference/search.md). A model trained in PyTorch is called in place of score().
"""
import json
import sys


def score(rows, column):
    return -sum(row[column] for row in rows)


def main():
    column = 0
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "start":
            names = message["rows"]["statement"]
            column = next(i for i, name in enumerate(names) if "unique_lines" in name)
            reply = {"rows": "statement"}
        else:
            reply = {"scores": [score(rows, column) for rows in message["candidates"]]}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
