#!/usr/bin/env python3
"""Draws which groups of tessera/ include which, and which libraries inside a group, from the #include lines.

usage: tools/house.py [--write | --check]

A box stands above all that it includes; an arrow that follows from others is left out. --write draws
docs/design/house/ again; --check fails if that would change a picture. Prints the number of arrows, and every arrow
that closes a circle; exit 1 if there is one.
"""
import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/design/house"
WIDTH, LINE, GAP, FLOOR = 128, 15, 26, 46


def place_of(path):
    """The group of a source or header, and its library; a group that is one library has its own name for both."""
    group, *inside = path.split("/")[1:-1]
    single = (ROOT / "tessera" / group / "CMakeLists.txt").exists()
    return group, group if single else inside[0]


def read_includes():
    """group -> its libraries; and what includes what, between groups and between the libraries of each group."""
    libraries = collections.defaultdict(set)
    includes = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in sorted((ROOT / "tessera").rglob("*")):
        if path.suffix not in (".h", ".cc", ".c"):
            continue
        group, library = place_of(str(path.relative_to(ROOT)))
        libraries[group].add(library)
        text = path.read_text(encoding="utf-8", errors="replace")
        for included in re.findall(r'^#include "(tessera/[^"]+/[^"]+)"', text, re.MULTILINE):
            if not (ROOT / included).exists():
                continue  # the installed headers of capi
            other_group, other = place_of(included)
            if other_group != group:
                includes["house"][group].add(other_group)
            elif other != library:
                includes[group][library].add(other)
    return libraries, includes


class Picture:
    """Boxes on floors. `below`: box -> boxes that it includes; `words`: box -> lines under its name."""

    def __init__(self, boxes, below, words):
        self.boxes, self.below, self.words = sorted(boxes), below, words
        self.reach = {box: self.reached(box) for box in self.boxes}
        self.circles = [(a, b) for a in self.boxes for b in sorted(below[a]) if a in self.reach[b]]
        self.floor = {}
        for box in self.boxes:
            self.height(box)

    def reached(self, start):
        seen, left = set(), [start]
        while left:
            for there in self.below[left.pop()]:
                if there not in seen:
                    seen.add(there)
                    left.append(there)
        return seen

    def height(self, box):
        if box not in self.floor:
            below = [b for b in self.below[box] if (box, b) not in self.circles]
            self.floor[box] = 1 + max(map(self.height, below), default=-1)
        return self.floor[box]

    def arrows(self):
        """Without those that follow from others."""
        for a in self.boxes:
            below = sorted(b for b in self.below[a] if (a, b) not in self.circles)
            yield from ((a, b) for b in below if not any(b in self.reach[c] for c in below if c != b))

    def box_height(self, box):
        return 24 + LINE * len(self.words[box])

    def layout(self):
        """box -> its corner; width and height of all."""
        rows = [[b for b in self.boxes if self.floor[b] == n] for n in range(max(self.floor.values()), -1, -1)]
        width = max(map(len, rows)) * (WIDTH + GAP) + GAP
        at, y = {}, GAP
        for row in rows:
            left = (width - len(row) * (WIDTH + GAP) + GAP) / 2
            tallest = max(map(self.box_height, row))
            for i, box in enumerate(row):
                at[box] = (left + i * (WIDTH + GAP), y + (tallest - self.box_height(box)) / 2)
            y += tallest + FLOOR
        return at, width, y - FLOOR + GAP

    def draw(self):
        at, width, height = self.layout()
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="sans-serif">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#789"/></marker></defs>',
            '<rect width="100%" height="100%" fill="white"/>',
        ]
        for a, b in self.arrows():
            x1, y1 = at[a][0] + WIDTH / 2, at[a][1] + self.box_height(a)
            x2, y2 = at[b][0] + WIDTH / 2, at[b][1]
            bend = (y2 - y1) / 2
            out.append(
                f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}" '
                'fill="none" stroke="#789" marker-end="url(#tip)"/>'
            )
        for box, (x, y) in at.items():
            middle = x + WIDTH / 2
            out.append(
                f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{self.box_height(box)}" rx="5" fill="#eef3f8" '
                f'stroke="#456"/><text x="{middle:.0f}" y="{y + 17:.0f}" text-anchor="middle" font-size="13" '
                f'font-weight="bold">{box}</text>'
            )
            for i, word in enumerate(self.words[box]):
                out.append(
                    f'<text x="{middle:.0f}" y="{y + 17 + LINE * (i + 1):.0f}" text-anchor="middle" font-size="11" '
                    f'fill="#345">{word}</text>'
                )
        return "\n".join([*out, "</svg>", ""])


def pictures():
    """name -> Picture: the whole house, and every group of several libraries."""
    libraries, includes = read_includes()
    words = {group: sorted(names - {group}) for group, names in libraries.items()}
    found = {"house": Picture(libraries, includes["house"], words)}
    for group, names in sorted(libraries.items()):
        if len(names) > 1:
            found[group] = Picture(names, includes[group], {name: [] for name in names})
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    bad = False
    for name, picture in pictures().items():
        count = sum(map(len, picture.below.values()))
        print(f"{name}: {len(picture.boxes)} boxes on {max(picture.floor.values()) + 1} floors, {count} arrows")
        for a, b in picture.circles:
            print(f"circle: {a} -> {b}")
            bad = True
        path, text = PICTURES / f"{name}.svg", picture.draw()
        if options.write:
            PICTURES.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif options.check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            print(f"{path.relative_to(ROOT)} is not what the includes say: tools/house.py --write")
            bad = True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
