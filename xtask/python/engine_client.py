"""Runs one job in an engine process and collects what it says, by the words of docs/PROTOCOL.md."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROTOCOL_VERSION = 1
LAST_LINES = 20


class EngineFailure(Exception):
    """The engine did not end its job well; the text says how, with what it said last."""


@dataclass
class EngineRun:
    """What an engine said."""

    hello: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    first_step_at: float = 0.0
    """When the first step was reported, on the clock `time.monotonic`."""


@dataclass(frozen=True)
class Engine:
    """An engine program and the torch that it loads."""

    program: Path
    torch_site: Path
    threads: int = 2
    time_limit_secs: float = 1800.0
    arguments: tuple[str, ...] = ()
    device: str = "cpu"
    variables: dict[str, str] = field(default_factory=dict)
    """Further environment variables."""
    before_start: Callable[[], None] | None = None
    """Called in the new process before the program."""

    def loader_path(self) -> str:
        """Folders with the libraries of torch and of the GPU runtime that lies beside it."""
        folders = [self.torch_site / "torch" / "lib"]
        folders += sorted(self.torch_site.glob("nvidia/*/lib")) + sorted(self.torch_site.glob("_rocm_sdk_*/lib"))
        return os.pathsep.join(str(folder) for folder in folders)

    def run(self, run_dir: Path, kind: str, **work: Any) -> EngineRun:
        """Does one job in `run_dir`.

        Raises `EngineFailure` when the engine reports an error, ends without `bye` or with another status than `ok`, or takes
        longer than the limit.
        """
        run_dir.mkdir(parents=True, exist_ok=True)
        job = {"type": "job", "run_dir": str(run_dir), "device": self.device, "threads": self.threads, "kind": kind, **work}
        environment = {**os.environ, "LD_LIBRARY_PATH": self.loader_path(), "TUNESMITH_TORCH": str(self.torch_site), **self.variables}
        run, last_lines, errors, status = EngineRun(), deque(maxlen=LAST_LINES), [], None
        with (run_dir / "engine-stderr.log").open("w") as stderr, (run_dir / "events.jsonl").open("w") as record:
            process = subprocess.Popen(
                [str(self.program), *self.arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment, preexec_fn=self.before_start, encoding="utf-8"
            )
            timer = threading.Timer(self.time_limit_secs, process.kill)
            timer.start()
            try:
                # The end of stdin tells an engine to leave, so the pipe stays open until `bye`.
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()
                for line in process.stdout:
                    record.write(line)
                    event = parse_event(line)
                    match event.get("type"):
                        case "hello":
                            run.hello = event
                        case "step":
                            run.first_step_at = run.first_step_at or time.monotonic()
                            run.steps.append(event)
                        case "result":
                            run.result = event
                        case "error":
                            errors.append(f"{event.get('code')}: {event.get('message')}")
                        case "bye":
                            status = event.get("status")
                            break
                        case "progress" | "check" | "checkpoint" | "answer":
                            pass
                        case _:
                            last_lines.append(line.rstrip("\n"))
            except BrokenPipeError:
                pass
            finally:
                # `communicate` closes stdin and drains what is left, so that the engine can leave.
                try:
                    process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                timer.cancel()
        if errors or status != "ok":
            tail = list(last_lines) + (run_dir / "engine-stderr.log").read_text(errors="replace").splitlines()[-LAST_LINES:]
            what = "; ".join(errors) or (f"it ended with status {status}" if status else f"it left without bye, {how_it_ended(process.returncode)}")
            raise EngineFailure("\n".join([f"{kind} job in {run_dir}: {what}", *tail]))
        if run.hello.get("protocol") != PROTOCOL_VERSION:
            raise EngineFailure(f"the engine speaks protocol {run.hello.get('protocol')}, this script {PROTOCOL_VERSION}")
        return run


def how_it_ended(returncode: int) -> str:
    """An exit status, or the name of the signal that killed a process."""
    return f"exit status {returncode}" if returncode >= 0 else f"killed by {signal.Signals(-returncode).name}"


def parse_event(line: str) -> dict[str, Any]:
    """A line as a message; an empty one for text that a library wrote."""
    try:
        event = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return event if isinstance(event, dict) else {}
