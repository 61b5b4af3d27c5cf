"""Tuning, by the program `tessera` that comes with this package: trials run in processes of their own, so that code
that is tried cannot harm this one."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass, field, fields
from typing import Any, Callable, IO, Mapping, Optional, Sequence, Union

from ._bar import Bar, is_watched
from ._model import Error, PathLike, _literal, present
from ._words import in_python


@dataclass
class Progress:
    """Where a tuning stands; times in seconds, 0 as long as they are not known. ``agents``, ``queued`` and
    ``trials_per_s`` are of tunings that agents measure for.
    """

    phase: str = ""
    task: str = ""
    trials: int = 0
    failures: int = 0
    before_s: float = 0.0
    after_s: float = 0.0
    elapsed_s: float = 0.0
    remaining_s: float = 0.0
    agents: int = 0
    queued: int = 0
    trials_per_s: float = 0.0


_PROGRESS = {f.name for f in fields(Progress)}


@dataclass
class Tuning:
    """What a tuning found. ``plan``: path of the plan, which :func:`compile` takes; ``before_s`` and ``after_s``: the
    time of the model with default schedules and with the plan; ``report``: all that `tessera tune --json` prints;
    ``unproved``: path of a plan that is faster kernel by kernel, which could not be shown for the whole model.
    """

    plan: str
    before_s: float
    after_s: float
    interrupted: bool = False
    report: dict[str, Any] = field(default_factory=dict, repr=False)
    unproved: Optional[str] = None

    @property
    def gain(self) -> float:
        """How many times as fast the model became."""
        return self.before_s / self.after_s if self.after_s > 0 else 1.0


def program() -> str:
    """The path of the program `tessera`: the one in this package, $TESSERA_PROGRAM, or the one on PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tessera")
    found = os.environ.get("TESSERA_PROGRAM") or (own if os.path.exists(own) else shutil.which("tessera"))
    if not found:
        raise FileNotFoundError("no program tessera in this package or on PATH")
    return found


def main() -> None:
    """The command `tessera` of an installed wheel."""
    import sys

    os.execv(program(), ["tessera", *sys.argv[1:]])


def _words(command: str, model: PathLike, shapes: Optional[Mapping[str, Sequence[int]]],
           dims: Optional[Mapping[str, int]], values: Optional[Mapping[str, Any]],
           flags: Mapping[str, Any]) -> list[str]:
    present(os.fspath(model))
    words = [program(), command, os.fspath(model)]
    for name, shape in (shapes or {}).items():
        words += ["--shape", f"{name}:{'x'.join(map(str, shape))}"]
    for name, size in (dims or {}).items():
        words += ["--dim", f"{name}={size}"]
    for name, value in (values or {}).items():
        words += ["--value", f"{name}={_literal(value)}"]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def _said(lines: Sequence[str], command: str, code: int) -> str:
    """The last lines of the program, in Python's words."""
    text = "\n".join(line.removeprefix("tessera: ") for line in lines[-5:])
    return in_python(text) or f"tessera {command} ended with {code}"


def warn_of(lines: Sequence[str]) -> None:
    """What the program remarked on is a warning of whoever called the function that ran it."""
    for line in lines:
        if line.startswith("tessera: "):
            text = line.removeprefix("tessera: ").removeprefix("warning: ")
            warnings.warn(in_python(text), stacklevel=3)


def _beside(model: str) -> str:
    """NAME.plan beside the model; of a built-in one here."""
    return (model[4:].split("@")[0] if model.startswith("zoo:") else os.path.splitext(model)[0]) + ".plan"


def _follow(stream: IO[str], progress: Optional[Callable[[Progress], Any]], said: list[str],
            failures: list[BaseException]) -> None:
    for line in stream:
        if not line.startswith("{"):
            said.append(line.rstrip("\n"))
        elif progress is not None and not failures:
            try:
                told = json.loads(line)
                progress(Progress(**{name: told[name] for name in _PROGRESS & told.keys()}))
            except BaseException as e:  # raised in the caller's thread
                failures.append(e)


def tune(model: PathLike, /, *, budget: Union[str, float, None] = None, trials: Optional[int] = None, threads: int = 0,
         plan: Optional[PathLike] = None, shapes: Optional[Mapping[str, Sequence[int]]] = None,
         dims: Optional[Mapping[str, int]] = None, values: Optional[Mapping[str, Any]] = None,
         target: Optional[str] = None, db: Optional[PathLike] = None,
         progress: Union[Callable[[Progress], Any], bool, None] = None, **flags: Any) -> Tuning:
    """Searches for faster schedules of an ONNX file or "zoo:NAME" by measuring, and returns a :class:`Tuning`.

    budget: wall clock, "90s", "2m", "1h30m" or seconds; trials: how many candidates to measure. Without both: 10 minutes.
    threads: of the tuned code, 0: one per core. plan: file to write (default: NAME.plan beside the model). db: file or
    URL that keeps all records, so that a later call goes on (default: $TESSERA_DB, else none). progress: called with a
    :class:`Progress`, or whether to show a bar (default: on terminals and in notebooks). Other flags of `tessera tune` go by name: ``policy="genetic"``,
    ``seed=3``, ``batch=4``.

    An interrupt (Ctrl-C, "stop" in a notebook) ends the search and returns the best so far.
    """
    path = os.fspath(plan) if plan is not None else _beside(os.fspath(model))
    bar = Bar() if progress is True or (progress is None and is_watched(sys.stderr)) else None
    told = progress if callable(progress) else bar
    words = _words("tune", model, shapes, dims, values, {
        "budget": f"{budget}s" if isinstance(budget, (int, float)) else budget, "trials": trials,
        "threads": threads or None, "plan": path, "target": target, "json": True, "json_progress": True,
        "peers": "none", **flags})
    if db is not None or not os.environ.get("TESSERA_DB"):
        words += ["--db", os.fspath(db) if db is not None else ""]
    said: list[str] = []
    failures: list[BaseException] = []
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout is not None and child.stderr is not None
    answer: list[str] = []
    readers = [threading.Thread(target=_follow, args=(child.stderr, told, said, failures)),
               threading.Thread(target=lambda out: answer.append(out.read()), args=(child.stdout,))]
    for reader in readers:
        reader.start()
    stopped = False
    while child.poll() is None:
        try:
            child.wait(0.1)
        except subprocess.TimeoutExpired:
            if failures and not stopped:
                stopped = True
                child.send_signal(signal.SIGINT)
        except KeyboardInterrupt:
            stopped = True
            child.send_signal(signal.SIGINT)
    for reader in readers:
        reader.join()
    child.stdout.close()
    child.stderr.close()
    if bar:
        bar.close()
    if failures:
        raise failures[0]
    report = json.loads(answer[0]) if answer and answer[0].strip() else {}
    if child.returncode not in (0, 130) or not report.get("plan"):
        raise Error(_said(said, "tune", child.returncode))
    # Who interrupts on a terminal is told of a second Ctrl-C, by a line that comes with every plan.
    warn_of([line for line in said if not line.startswith("tessera: checking the whole model")])
    times = (report.get("subjects") or [{}])[0]
    return Tuning(path, times.get("before_us", 0.0) * 1e-6, times.get("after_us", 0.0) * 1e-6,
                  report.get("state") == "interrupted" or stopped, report, report.get("unproved_plan"))
