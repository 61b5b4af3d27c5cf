#!/usr/bin/env python3
"""Draws which folders of tessera/ include which, from the #include lines.

usage: tools/house.py [-o house.svg] [--groups FILE]

A folder stands above all that it includes; an arrow that follows from others is left out. --groups draws groups of
folders instead: lines `GROUP: FOLDER FOLDER ...`, so that a layout can be judged before anything is moved. Prints the
number of arrows, and every arrow that closes a circle; exit 1 if there is one.
"""
import argparse
import collections
import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOX_WIDTH, BOX_HEIGHT, GAP, FLOOR = 118, 34, 18, 84


def folder_of(path, groups):
    parts = path.split("/")[1:-1]
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if name in groups:
            return groups[name]
    return parts[0] if not groups else None


def read_groups(path):
    groups = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        name, _, members = line.partition(":")
        for member in members.split():
            groups[member] = name.strip()
    return groups


def read_includes(groups):
    """folder -> folders that it includes, with the number of includes; and the lines of every folder."""
    includes = collections.defaultdict(collections.Counter)
    lines = collections.Counter()
    for path in sorted((ROOT / "tessera").rglob("*")):
        if path.suffix not in (".h", ".cc", ".c"):
            continue
        name = str(path.relative_to(ROOT))
        here = folder_of(name, groups)
        if here is None:
            sys.exit(f"{name} is in no group")
        text = path.read_text(encoding="utf-8", errors="replace")
        lines[here] += text.count("\n")
        for included in re.findall(r'^#include "(tessera/[^"]+/[^"]+)"', text, re.MULTILINE):
            there = folder_of(included, groups)
            if there not in (None, here):
                includes[here][there] += 1
    return includes, lines


def circles(includes, folders):
    """Arrows whose end leads back to their beginning."""
    reach = {f: set() for f in folders}
    for start in folders:
        left = [start]
        while left:
            for there in includes[left.pop()]:
                if there not in reach[start]:
                    reach[start].add(there)
                    left.append(there)
    return [(a, b) for a in folders for b in includes[a] if a in reach[b]], reach


def floors(includes, folders, wrong):
    floor = {}

    def height(folder):
        if folder not in floor:
            below = [there for there in includes[folder] if (folder, there) not in wrong]
            floor[folder] = 1 + max((height(there) for there in below), default=-1)
        return floor[folder]

    for folder in folders:
        height(folder)
    return floor


def without_shortcuts(includes, folders, reach, wrong):
    arrows = []
    for a in folders:
        below = [b for b in includes[a] if (a, b) not in wrong]
        arrows += [(a, b) for b in below if not any(b in reach[c] for c in below if c != b)]
    return arrows


def draw(includes, lines, floor, arrows):
    rows = collections.defaultdict(list)
    for folder in sorted(floor):
        rows[floor[folder]].append(folder)
    top = max(rows)
    width = max(len(row) for row in rows.values()) * (BOX_WIDTH + GAP) + GAP
    at = {}
    for number, row in rows.items():
        left = (width - len(row) * (BOX_WIDTH + GAP) + GAP) / 2
        for i, folder in enumerate(row):
            at[folder] = (left + i * (BOX_WIDTH + GAP), GAP + (top - number) * FLOOR)
    height = GAP * 2 + top * FLOOR + BOX_HEIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#789"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for a, b in arrows:
        x1, y1 = at[a][0] + BOX_WIDTH / 2, at[a][1] + BOX_HEIGHT
        x2, y2 = at[b][0] + BOX_WIDTH / 2, at[b][1]
        bend = (y2 - y1) / 2
        out.append(
            f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}" '
            'fill="none" stroke="#789" stroke-opacity=".7" marker-end="url(#tip)"/>'
        )
    for folder, (x, y) in at.items():
        out.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" fill="#eef3f8" stroke="#456"/>'
            f'<text x="{x + BOX_WIDTH / 2:.0f}" y="{y + 15:.0f}" text-anchor="middle" font-size="13">{html.escape(folder)}</text>'
            f'<text x="{x + BOX_WIDTH / 2:.0f}" y="{y + 28:.0f}" text-anchor="middle" font-size="9" fill="#567">'
            f"{lines[folder]:,} lines</text>"
        )
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output")
    parser.add_argument("--groups")
    options = parser.parse_args()
    includes, lines = read_includes(read_groups(options.groups) if options.groups else {})
    folders = sorted(lines)
    wrong, reach = circles(includes, folders)
    floor = floors(includes, folders, set(wrong))
    arrows = without_shortcuts(includes, folders, reach, set(wrong))
    pairs = sum(len(below) for below in includes.values())
    print(f"{len(folders)} folders on {max(floor.values()) + 1} floors, {pairs} arrows, {len(arrows)} of them drawn")
    for a, b in wrong:
        print(f"circle: {a} -> {b} ({includes[a][b]} includes)")
    if options.output:
        pathlib.Path(options.output).write_text(draw(includes, lines, floor, arrows), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
