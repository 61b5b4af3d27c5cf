"""A stand-in for the program `tessera`."""
import contextlib
import os
import tempfile
from unittest import mock


@contextlib.contextmanager
def program_that(says="", prints='{"plan": "x.plan"}', ends_with=0):
    """Gives the path of the file that it writes its arguments to, one per line."""
    with tempfile.TemporaryDirectory() as folder:
        program, words = os.path.join(folder, "tessera"), os.path.join(folder, "words")
        with open(program, "w") as file:
            file.write(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{words}\ncat >&2 <<'END'\n{says}\nEND\n"
                       f"cat <<'END'\n{prints}\nEND\nexit {ends_with}\n")
        os.chmod(program, 0o755)
        with mock.patch.dict(os.environ, {"TESSERA_PROGRAM": program}):
            yield words
