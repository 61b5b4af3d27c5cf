"""The line that shows where a tuning stands, on terminals and in notebooks."""
from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, IO, Optional

if TYPE_CHECKING:
    from ._tune import Progress

_WIDTH = 20


def is_watched(stream: IO[str]) -> bool:
    return stream.isatty() or "ipykernel" in sys.modules


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


class Bar:
    def __init__(self, stream: Optional[IO[str]] = None) -> None:
        self._stream = stream or sys.stderr
        self._shown = 0

    def __call__(self, p: Progress) -> None:
        if p.remaining_s > 0:
            done = round(_WIDTH * p.elapsed_s / (p.elapsed_s + p.remaining_s))
            text = f"[{'#' * done}{'.' * (_WIDTH - done)}] {_clock(p.remaining_s)} left"
        else:
            text = _clock(p.elapsed_s)
        text += f", {p.phase}, {p.trials} trials"
        if p.before_s > 0 and p.after_s > 0:
            text += f", {_time(p.before_s)} -> {_time(p.after_s)} ({p.before_s / p.after_s:.2f}x)"
        text = text[:shutil.get_terminal_size().columns - 1]
        self._stream.write("\r" + text.ljust(self._shown))
        self._stream.flush()
        self._shown = len(text)

    def close(self) -> None:
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()
