"""Tells on stderr what is going on; stdout is the result's alone."""

from __future__ import annotations

import sys
import time

START = time.monotonic()


def note(text: str) -> None:
    """Prints a line with the time since the start."""
    print(f"[{time.monotonic() - START:6.1f} s] {text}", file=sys.stderr, flush=True)
