#!/usr/bin/env python3
"""Checks the wording and the length of documents and help texts.

  tools/lint/documents.py            everything that git knows
  tools/lint/documents.py FILE...    the wording of these files
  tools/lint/documents.py --rules    whether each rule of wording.txt finds its bad sample and passes its good one

The rules of wording are in wording.txt. Prints FILE:LINE, what was found and what to write instead; exits with 1.
"""
import bisect
import fnmatch
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# Words as `wc -w` counts them. A pattern with "*" limits each of its files.
LENGTHS = [("README.md", 900), ("docs/guide/*.md", 1500)]
LENGTH_OF_ALL = 40000


class Rule:
    def __init__(self, fields):
        self.form = re.compile(fields["form"])
        self.write, self.bad, self.good = fields["write"], fields["bad"], fields["good"]
        self.kinds = fields["in"].split()


def read_rules():
    rules = []
    with open(os.path.join(HERE, "wording.txt"), encoding="utf-8") as file:
        for block in re.sub(r"(?m)^#.*\n", "", file.read()).strip().split("\n\n"):
            rules.append(Rule(dict(re.split(r":\s+", line, maxsplit=1) for line in block.strip().splitlines())))
    return rules


def kinds_of(name):
    if name.endswith(".md"):
        return ["documents"]
    if name.endswith((".cc", ".h", ".c")):
        return ["comments", "messages"]
    return ["help"]


class Paragraphs:
    """Texts whose lines are joined by spaces, with the line that each piece came from."""

    def __init__(self):
        self.all = []

    def begin(self):
        self.all.append(("", [], []))

    def add(self, text, line):
        if not self.all:
            self.begin()
        joined, starts, lines = self.all.pop()
        if joined:
            joined += " "
        self.all.append((joined + text, starts + [len(joined)], lines + [line]))


def without_code(line):
    return re.sub(r"`[^`]*`", "CODE", line)


def document_paragraphs(lines):
    out, code = Paragraphs(), False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            code = not code
            out.begin()
            continue
        if code:
            continue
        text = line.strip()
        # Headings, list items and rows of tables begin anew.
        if not text or re.match(r"(#|[-*|<]|\d+\.)", text):
            out.begin()
        if text.startswith("|"):
            for cell in text.strip("|").split("|"):
                out.begin()
                out.add(without_code(cell.strip()), number)
            continue
        out.add(without_code(re.sub(r"^(#+|[-*]|\d+\.)\s+", "", text)), number)
    return out.all


def help_paragraphs(lines):
    out, examples = Paragraphs(), False
    for number, line in enumerate(lines, 1):
        if line.startswith("Examples:"):
            examples = True
            continue
        if examples and re.match(r"(  |\$ )", line):
            continue
        # A flag, a positional or a subcommand begins anew; its text stands in a column of its own.
        flag = re.match(r"  (-|[A-Za-z])\S*.*?(\s{2,}(?P<text>\S.*))?$", line)
        if flag or not line.strip() or not line.startswith(" "):
            out.begin()
        out.add(without_code(((flag["text"] or "") if flag else line).strip()), number)
    return out.all


def comment_paragraphs(lines):
    out = Paragraphs()
    for number, line in enumerate(lines, 1):
        comment = re.search(r"(?:^|\s)//+(?P<text>.*)", line)
        if not comment:
            out.begin()
            continue
        if line[: comment.start()].strip():
            out.begin()
        out.add(without_code(comment["text"].strip()), number)
    return out.all


STRING = r'"(?:[^"\\\n]|\\.)*"'


def message_paragraphs(lines):
    """String literals, with those that follow each other joined."""
    out = Paragraphs()
    text = "\n".join("" if re.match(r"\s*(#|//)", line) else line for line in lines)
    for match in re.finditer(rf"{STRING}(?:\s*{STRING})*", text):
        out.begin()
        for literal in re.finditer(STRING, match.group()):
            # A literal that ends within a sentence ends with a space, which joining adds.
            piece = without_code(literal.group()[1:-1].replace("\\n", " ").strip())
            out.add(piece, 1 + text.count("\n", 0, match.start() + literal.start()))
    # One word is a name or a value, not a message.
    return [paragraph for paragraph in out.all if " " in paragraph[0]]


PARAGRAPHS = {"documents": document_paragraphs, "help": help_paragraphs, "comments": comment_paragraphs,
              "messages": message_paragraphs}


def wording_mistakes(name, text, rules):
    found = []
    for kind in kinds_of(name):
        for joined, starts, lines in PARAGRAPHS[kind](text.splitlines()):
            for rule in rules:
                if kind not in rule.kinds:
                    continue
                for match in rule.form.finditer(joined):
                    line = lines[bisect.bisect_right(starts, match.start()) - 1]
                    found.append((line, f"{name}:{line}: '{match.group().strip(' .;')}': write {rule.write}"))
    return [message for _, message in sorted(found)]


def length_mistakes(texts):
    """texts: the documents outside tests, name -> text."""
    words = {name: len(text.split()) for name, text in texts.items()}
    found = []
    for pattern, limit in LENGTHS:
        for name in sorted(fnmatch.filter(words, pattern)):
            if words[name] > limit:
                found.append(f"{name}:1: {words[name]} words, at most {limit}")
    if sum(words.values()) > LENGTH_OF_ALL:
        found.append(f"*.md outside tests: {sum(words.values())} words, at most {LENGTH_OF_ALL}")
    return found


def rule_mistakes(rules):
    found = []
    for rule in rules:
        if not rule.form.search(rule.bad):
            found.append(f"wording.txt: '{rule.form.pattern}' does not find '{rule.bad}'")
        for other in rules:
            if other.form.search(rule.good):
                found.append(f"wording.txt: '{other.form.pattern}' finds '{rule.good}'")
    return found


def listed_files():
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "tests/golden/cli/help*.txt",
         "tessera/**.h", "tessera/**.cc", "tessera/**.c"],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted(n for n in set(names) if n and os.path.exists(os.path.join(ROOT, n)) and not re.match(r"tests/.*\.md", n))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(arguments):
    rules = read_rules()
    mistakes = []
    if arguments == ["--rules"]:
        mistakes = rule_mistakes(rules)
    elif arguments:
        for name in arguments:
            mistakes += wording_mistakes(name, read(name), rules)
    else:
        texts = {name: read(os.path.join(ROOT, name)) for name in listed_files()}
        for name, text in texts.items():
            mistakes += wording_mistakes(name, text, rules)
        mistakes += length_mistakes({name: text for name, text in texts.items() if name.endswith(".md")})
    for mistake in mistakes:
        print(mistake)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
