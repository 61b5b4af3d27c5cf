"""Runs docs/guide/python.md from top to bottom: a block of Python, and what it prints where a block of text follows."""
import contextlib
import io
import os
import re
import tempfile
import unittest

GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/guide/python.md")


class GuideTest(unittest.TestCase):
    def test_prints_what_it_shows(self):
        with open(GUIDE, encoding="utf-8") as file:
            text = file.read()
        blocks = re.findall(r"```python\n(.*?)```\n(?:\s*```text\n(.*?)```)?", text, re.S)
        self.assertGreater(len(blocks), 5)
        before, names = os.getcwd(), {}
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for code, shown in blocks:
                    if "import torch" in code and not has_torch():
                        continue
                    printed = io.StringIO()
                    with self.subTest(code=code), contextlib.redirect_stdout(printed):
                        exec(compile(code, "docs/guide/python.md", "exec"), names)
                    if shown:
                        self.assertEqual(printed.getvalue(), shown, code)
            finally:
                os.chdir(before)


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    unittest.main()
