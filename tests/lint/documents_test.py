"""tools/lint/documents.py finds what its rules forbid, names the line, and passes what is mended."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

LINTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/lint/documents.py")
spec = importlib.util.spec_from_file_location("documents", LINTER)
documents = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(documents)


def check(name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run([sys.executable, LINTER, path], capture_output=True, text=True)
    return run.returncode, run.stdout.replace(folder + "/", "")


class WordingTest(unittest.TestCase):
    def test_every_rule_finds_its_bad_sample_and_passes_its_good_one(self):
        rules = documents.read_rules()
        self.assertGreater(len(rules), 8)
        self.assertEqual(documents.rule_mistakes(rules), [])

    def test_a_rule_that_misses_its_sample_is_found(self):
        rule = documents.Rule({"form": "x", "write": "z", "in": "help", "bad": "y", "good": "x"})
        self.assertEqual(len(documents.rule_mistakes([rule])), 2)

    def test_bad_documents_fail_with_the_line_and_what_to_write(self):
        for rule in documents.read_rules():
            if "documents" not in rule.kinds:
                continue
            code, out = check("page.md", f"# A page\n\nThe first line.\n\n{rule.bad}\n")
            self.assertEqual(code, 1, rule.bad)
            self.assertIn("page.md:5: ", out)
            self.assertIn(rule.write, out)

    def test_good_documents_pass(self):
        text = "# A page\n\n" + "\n\n".join(rule.good for rule in documents.read_rules()) + "\n"
        self.assertEqual(check("page.md", text), (0, ""))

    def test_a_form_across_two_lines_is_found_on_its_first(self):
        code, out = check("page.md", "It samples\nthe chances, so\nmany of them.\n")
        self.assertEqual(code, 1)
        self.assertIn("page.md:2: 'chances'", out)
        self.assertIn("page.md:2: 'so many'", out)

    def test_code_is_not_prose(self):
        self.assertEqual(check("page.md", "`so many`\n\n```sh\ntessera tune  # so many chances\n```\n"), (0, ""))

    def test_texts_of_flags_are_read_without_the_flags(self):
        flags = "Options:\n  --seed UINT=1               Of the draws\n  --beside TEXT\n                              Of levels: one\n"
        code, out = check("help.txt", flags)
        self.assertEqual(code, 1)
        self.assertIn("help.txt:2: 'Of'", out)
        self.assertIn("help.txt:4: 'Of'", out)
        good = "Options:\n  --seed UINT=1               Seed of the draws\n  --time UINT\n                              Times\n"
        self.assertEqual(check("help.txt", good), (0, ""))

    def test_messages_are_read_across_literals_and_code_is_not(self):
        source = 'int chances = 1;\nfail("the file is "\n     "no list");\n#include "so many"\nsay("there is no list");\n'
        code, out = check("file.cc", source)
        self.assertEqual(code, 1)
        self.assertEqual(out.count("\n"), 1)
        self.assertIn("file.cc:2: 'is no'", out)

    def test_comments_are_read_where_a_rule_asks_for_it(self):
        rule = documents.Rule({"form": "chances", "write": "z", "in": "comments", "bad": "y", "good": "x"})
        text = 'int chances = 1;  // of all\n// the\n// chances\nsay("chances are");\n'
        self.assertEqual(documents.wording_mistakes("file.h", text, [rule]), ["file.h:3: 'chances': write z"])


class LengthTest(unittest.TestCase):
    def test_pages_within_their_limits_pass(self):
        self.assertEqual(documents.length_mistakes({"README.md": "word " * 900, "docs/guide/a.md": "word " * 1500}), [])

    def test_long_pages_are_named(self):
        found = documents.length_mistakes({"README.md": "word " * 901, "docs/guide/a.md": "word " * 1501})
        self.assertEqual(len(found), 2)
        self.assertIn("README.md:1: 901 words, at most 900", found[0])

    def test_all_pages_together_have_a_limit(self):
        pages = {f"docs/reference/{i}.md": "word " * 10000 for i in range(4)}
        self.assertEqual(documents.length_mistakes(pages), [])
        self.assertEqual(len(documents.length_mistakes({**pages, "more.md": "word"})), 1)


if __name__ == "__main__":
    unittest.main()
