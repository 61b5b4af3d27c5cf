"""Messages of the compiler, which name flags of the program, in the words of this package."""
from __future__ import annotations

import re
from contextlib import contextmanager
from typing import Iterator

from ._native import Error


def _shape(match: re.Match[str]) -> str:
    name, _, sizes = match[1].rpartition(":")
    shape = sizes.split("x")
    return f'shapes={{"{name}": ({", ".join(shape)}{"," if len(shape) == 1 else ""})}}'


def _dims(match: re.Match[str]) -> str:
    names = re.findall(r"--dim (\S+)=SIZE", match[0])
    return "dims={" + ", ".join(f'"{name}": SIZE' for name in names) + "}"


_SAID = (
    (re.compile(r"--dim \S+=SIZE(?: --dim \S+=SIZE)*"), _dims),
    (re.compile(r"--shape (\S+:\w[\wx]*)"), _shape),
    (re.compile(r"--batch (-?\d+)"), r"batch=\1"),
    (re.compile(r"--value NAME=VALUE"), "values={NAME: VALUE}"),
    (re.compile(r"--(dtype|weights|target|emit) (\w+(?:-\w+)*)"), r'\1="\2"'),
    (re.compile(r"--shape\b"), "shapes="),
    (re.compile(r"--max-loop-steps N allows"), "`tessera run --max-loop-steps N` allows"),
    (re.compile(r"--(cc|plan|strict|threads)\b"), r"\1="),
)


def in_python(message: str) -> str:
    for pattern, said in _SAID:
        message = pattern.sub(said, message)
    return message


@contextmanager
def python_errors() -> Iterator[None]:
    """What is raised inside speaks Python."""
    try:
        yield
    except Error as error:
        told = Error(in_python(str(error)))
        told.code = error.code
        raise told from None
