"""A progress bar for batches, on a terminal alone."""

from __future__ import annotations

import sys

_WIDTH = 24


class ProgressBar:
    """Rewrites one line on stderr; silent when stderr is no terminal."""

    def __init__(self, enabled: bool = True) -> None:
        self._visible = enabled and sys.stderr.isatty()

    def __call__(self, done: int, total: int, output_tokens: int, seconds: float) -> None:
        if not self._visible:
            return
        sys.stderr.write("\r\033[K" + line(done, total, output_tokens, seconds))
        sys.stderr.flush()

    def close(self) -> None:
        if self._visible:
            sys.stderr.write("\n")
            sys.stderr.flush()


def line(done: int, total: int, output_tokens: int, seconds: float) -> str:
    """The line as text."""
    filled = _WIDTH * done // max(total, 1)
    bar = "█" * filled + "░" * (_WIDTH - filled)
    rest = _clock(seconds * (total - done) / done) if done else "?"
    rate = output_tokens / seconds if seconds > 0 else 0.0
    return f"{bar} {done}/{total} [{_clock(seconds)}<{rest}, {rate:.0f} tok/s]"


def _clock(seconds: float) -> str:
    whole = int(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"
