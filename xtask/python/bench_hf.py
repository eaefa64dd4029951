"""Measures the engine against transformers and PEFT: the same model, rows, adapter, threads and torch, in alternating pairs.

    python bench_hf.py --engine PATH --torch SITE --tunesmith PATH --model GGUF [--json] [--only CASE] [--pairs N] [--keep DIR]

Both sides are engines behind the words of docs/PROTOCOL.md; the other one is assets/workers/hf.py. Each is a process of its own
that loads the GGUF file, trains ten steps in f32 with LoRA of rank 16 on seven projections, and leaves. Cases:

* `off.sup25`, `off.sup100`: 4 rows of 128 tokens a step, a quarter or all of them supervised; nothing recomputed.
* `on.sup25`, `on.sup100`: the same with layers recomputed, against gradient checkpointing.
* `sql_rows`: the quickstart's rows as they are, 8 a step; the other side pads each micro-batch of 4 to its longest row.

Figures, each ours over theirs and the median over the pairs:

* `speed`: real tokens per second over the steps after the first three.
* `peak`: most memory that the process held after loading (Linux: VmHWM, reset after loading). In the cases `on` theirs is the peak
  *without* checkpointing; `peak_same` compares with checkpointing on both sides.
* `first_step`: from the start of the process to the end of its first step.
* `loss_diff`: largest relative difference of the losses of ten steps.
* `products`: what the step's matrix products take at the rates that each shape reaches by itself, over the engine's step time.

Machines have spells of a tenth of their speed. So a short matrix product runs before and after each pair; where it falls below 80 %
of the best seen, the pair is thrown away and repeated, and `repeated` counts that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import environment  # noqa: F401  (first: libraries read it while they are imported)
import torch
import transformers
from transformers import AutoModelForCausalLM

import tokenizer_oracle
from engine_client import Engine, EngineFailure
from note import note
from reference import TARGET_MODULES, Row, Settings, add_adapter, relative_step_error, save_adapter, write_rows

REPOSITORY = Path(__file__).resolve().parents[2]
WARMUP_STEPS = 3
STEPS = 10
GUARD_SIDE = 1536
GUARD_SHARE = 0.8
MOST_REPEATS = 10


@dataclass(frozen=True)
class Case:
    """What both sides train."""

    name: str
    rows: str
    recompute: str
    micro_batch: int = 4
    accumulation: int = 1


CASES = [
    Case("off.sup25", "sup25", "none"),
    Case("off.sup100", "sup100", "none"),
    Case("on.sup25", "sup25", "layer"),
    Case("on.sup100", "sup100", "layer"),
    Case("sql_rows", "sql_rows", "none", accumulation=2),
]


def main() -> int:
    """Measures what was asked for and prints the result."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    ours = Engine(arguments.engine, arguments.torch, arguments.threads)
    # Python is the program, the worker its first argument, and its torch the one that this script runs on.
    theirs = replace(ours, program=Path(sys.executable), torch_site=Path(torch.__file__).parents[1], arguments=(str(REPOSITORY / "assets/workers/hf.py"),))
    with tempfile.TemporaryDirectory(prefix="tunesmith-bench-") as temporary:
        work = (arguments.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        prepare(arguments, ours, work)
        guard = Guard()
        cases = [case for case in CASES if case.name in arguments.only]
        raw: dict[str, Any] = {}
        try:
            for case in cases:
                raw[case.name] = {"pairs": [], "repeated": 0, "products_secs": None}
                measure(case, raw[case.name], ours, theirs, arguments, work, guard)
        except KeyboardInterrupt:
            # Half an hour of pairs is worth something even where the last ones are missing.
            note("stopped by hand: the report holds the pairs so far")
            raw = {name: found for name, found in raw.items() if found["pairs"]}
            if not raw:
                return 130
    report = summarise(raw, arguments, guard)
    print(json.dumps(report, indent=2, allow_nan=False) if arguments.json else table(report))
    return 0


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", type=Path, required=True, metavar="PATH", help="the engine program")
    parser.add_argument("--torch", type=Path, required=True, metavar="SITE", help="folder that holds torch/lib, for the engine")
    parser.add_argument("--tunesmith", type=Path, required=True, metavar="PATH", help="the command line program, which makes the rows")
    parser.add_argument("--model", type=Path, required=True, metavar="GGUF", help="SmolLM2-135M-Instruct as a GGUF file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", action="append", choices=names, metavar="CASE", help=f"one of {', '.join(names)}; may be repeated")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="pairs of each case (default 5)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep rows, adapters and what both sides said in DIR")
    parser.add_argument("--threads", type=int, default=2, help="threads of each side (default 2)")
    arguments = parser.parse_args()
    if arguments.pairs < 1:
        parser.error("--pairs must be at least 1")
    for path in (arguments.engine, arguments.torch / "torch" / "lib", arguments.tunesmith, arguments.model):
        if not path.exists():
            parser.error(f"{path} does not exist")
    for name in ("engine", "torch", "tunesmith", "model"):
        setattr(arguments, name, getattr(arguments, name).resolve())
    arguments.only = arguments.only or names
    return arguments


def prepare(arguments: argparse.Namespace, ours: Engine, work: Path) -> None:
    """Writes the rows of all cases and the adapter that both sides start from."""
    note("preparing rows and the adapter's start")
    data = REPOSITORY / "assets/text-to-sql"
    tokenizer = tokenizer_oracle.assembled(tokenizer_oracle.GgufVocabulary(arguments.model))
    questions = [json.loads(line) for line in (data / "train.jsonl").read_text().splitlines()]
    text = " ".join(f"{question['question']} {question['sql']}" for question in questions[:600])
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    width, count = 128, 4 * STEPS
    plain = [ids[index * width : (index + 1) * width] for index in range(count)]
    write_rows(work / "sup25.safetensors", [Row(row, [position >= 96 for position in range(width)]) for row in plain])
    write_rows(work / "sup100.safetensors", [Row(row, [position > 0 for position in range(width)]) for row in plain])
    if "sql_rows" in arguments.only:
        (work / "sql_rows.safetensors").write_bytes(quickstart_rows(arguments, ours, work).read_bytes())
    model = AutoModelForCausalLM.from_pretrained(arguments.model.parent, gguf_file=arguments.model.name, dtype=torch.float32)
    save_adapter(add_adapter(model, Settings(rank=16), seed=5, random_b=False), work / "adapter_start")


def quickstart_rows(arguments: argparse.Namespace, ours: Engine, work: Path) -> Path:
    """The rows that the quickstart trains on, made by the app itself in a run of one step."""
    home = work / "home"
    command = [arguments.tunesmith, "train", "quickstart", "--set", "train.steps=1", "--set", "optimizer.warmup_steps=0", "--set", "evaluate.questions=0", "--json"]
    variables = {"TUNESMITH_HOME": home, "TUNESMITH_ENGINE": ours.program, "TUNESMITH_TORCH": ours.torch_site}
    done = subprocess.run(command, env={**os.environ, **{name: str(value) for name, value in variables.items()}}, capture_output=True, text=True, check=False)
    found = sorted(home.glob("**/rows/train.safetensors"))
    if done.returncode or not found:
        raise SystemExit(f"the quickstart's rows could not be made:\n{done.stderr[-2000:]}")
    return found[0]


class Guard:
    """A short matrix product that tells whether the machine is at its usual speed."""

    def __init__(self) -> None:
        self.a = torch.randn(GUARD_SIDE, GUARD_SIDE)
        self.b = torch.randn(GUARD_SIDE, GUARD_SIDE)
        self.best = 0.0
        self.readings: list[float] = []
        for _ in range(3):
            self.read()

    def read(self) -> float:
        """GFLOPS of the better of five products, so that one lost time slice does not count."""
        times = []
        for _ in range(5):
            start = time.perf_counter()
            self.a @ self.b
            times.append(time.perf_counter() - start)
        rate = 2 * GUARD_SIDE**3 / min(times) / 1e9
        self.best = max(self.best, rate)
        self.readings.append(rate)
        return rate


def measure(case: Case, found: dict[str, Any], ours: Engine, theirs: Engine, arguments: argparse.Namespace, work: Path, guard: Guard) -> None:
    """All pairs of a case, into `found`."""
    pairs, repeated = found["pairs"], 0
    if case.recompute == "none" and case.rows != "sql_rows":
        supervised = 32 * 4 if case.rows == "sup25" else 127 * 4
        found["products_secs"] = statistics.median(product_secs(512, supervised) for _ in range(3))
    while len(pairs) < arguments.pairs:
        before = guard.read()
        # The order alternates, so that a drift of the machine does not always hit the same side.
        sides = [("ours", ours), ("theirs", theirs)]
        order = sides if (len(pairs) + repeated) % 2 == 0 else sides[::-1]
        pair: dict[str, Any] = {name: train(engine, case, arguments, work, f"{case.name}-{len(pairs)}-{repeated}-{name}") for name, engine in order}
        after = guard.read()
        pair["guard_gflops"] = [before, after]
        slow = min(before, after) < GUARD_SHARE * guard.best
        note(
            f"{case.name} pair {len(pairs) + 1}: {pair['ours']['tokens_per_sec']:.0f} against {pair['theirs']['tokens_per_sec']:.0f} tokens/s, "
            f"guard {before:.0f} and {after:.0f} of {guard.best:.0f} GFLOPS{', repeated' if slow else ''}"
        )
        if slow and repeated < MOST_REPEATS:
            repeated += 1
            found["repeated"] = repeated
            continue
        pair["slow"] = slow
        pairs.append(pair)


def train(engine: Engine, case: Case, arguments: argparse.Namespace, work: Path, name: str) -> dict[str, Any]:
    """One side of a pair."""
    settings = Settings(rank=16)
    started = time.monotonic()
    run = engine.run(
        work / name,
        "train",
        model=str(arguments.model),
        rows=str(work / f"{case.rows}.safetensors"),
        dtype="f32",
        lora={"rank": settings.rank, "alpha": settings.alpha, "target_modules": TARGET_MODULES},
        optimizer={
            "learning_rate": settings.learning_rate,
            "beta1": settings.beta1,
            "beta2": settings.beta2,
            "eps": settings.eps,
            "weight_decay": settings.weight_decay,
            "warmup_steps": settings.warmup_steps,
            "schedule": "cosine",
            "max_grad_norm": settings.max_grad_norm,
        },
        batch={"micro_batch": case.micro_batch, "accumulation": case.accumulation},
        steps=STEPS,
        recompute=case.recompute,
        order="sequential",
        seed=3407,
        start_from=str(work / "adapter_start"),
    )
    if len(run.steps) != STEPS:
        raise EngineFailure(f"{STEPS} steps asked for, {len(run.steps)} reported")
    timed = run.steps[WARMUP_STEPS:]
    tokens = timed[-1]["real_tokens"] - run.steps[WARMUP_STEPS - 1]["real_tokens"]
    secs = [step["dt_secs"] for step in timed]
    return {
        "tokens_per_sec": tokens / sum(secs),
        "step_secs": statistics.median(secs),
        "peak_bytes": run.result["peak_process_bytes"],
        "allocator_peak_bytes": run.result["peak_bytes"],
        "first_step_secs": run.first_step_at - started,
        "losses": [step["loss"] for step in run.steps],
        "dt_secs": [step["dt_secs"] for step in run.steps],
    }


def product_secs(tokens: int, supervised: int) -> float:
    """What the matrix products of one step of SmolLM2-135M take, each shape at the rate that it reaches in a row of its own.

    The products are those that LoRA needs whoever computes them: y = xW', dx = dyW (not for the first layer's q, k and v), the
    rank-16 products both ways, the head both ways for supervised positions. Each of the 30 layers has weights of its own here too,
    so that none is found in a cache where the engine would not find it.
    """
    layers, hidden, kv, inner, vocabulary, rank = 30, 576, 192, 1536, 49152, 16
    shapes = {"q": (hidden, hidden), "k": (hidden, kv), "v": (hidden, kv), "o": (hidden, hidden), "gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden)}
    total = 0.0
    for name, (inputs, outputs) in shapes.items():
        weights = [torch.randn(outputs, inputs) for _ in range(layers)]
        x, dy = torch.randn(tokens, inputs), torch.randn(tokens, outputs)
        a, b = torch.randn(rank, inputs), torch.randn(outputs, rank)
        xa, grad_a, grad_b = torch.randn(tokens, rank), torch.zeros(rank, inputs), torch.zeros(outputs, rank)
        backward = weights[1:] if name in "qkv" else weights
        total += timed(lambda: [x @ weight.T for weight in weights])
        total += timed(lambda: [dy @ weight for weight in backward])
        small: list[Callable[[], Any]] = [lambda: x @ a.T, lambda: xa @ b.T, lambda: dy @ b, lambda: xa @ a, lambda: grad_a.addmm_(xa.T, x), lambda: grad_b.addmm_(dy.T, xa)]
        total += sum(timed(lambda product=product: [product() for _ in range(layers)]) for product in small)
    head, rows = torch.randn(vocabulary, hidden), torch.randn(min(supervised, 256), hidden)
    d_logits = torch.randn(len(rows), vocabulary)
    chunks = supervised / len(rows)
    return total + chunks * (timed(lambda: rows @ head.T) + timed(lambda: d_logits @ head))


def timed(work: Callable[[], Any]) -> float:
    """Median of three, after one that warms up."""
    work()
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def summarise(raw: dict[str, Any], arguments: argparse.Namespace, guard: Guard) -> dict[str, Any]:
    """The object that `--json` prints."""
    report: dict[str, Any] = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "threads": arguments.threads},
        "guard_best_gflops": guard.best,
    }
    theirs_off = {name.split(".")[1]: median_of(case, "theirs", "peak_bytes") for name, case in raw.items() if name.startswith("off.")}
    first_steps, differences = [], []
    for name, case in raw.items():
        speeds = [pair["ours"]["tokens_per_sec"] / pair["theirs"]["tokens_per_sec"] for pair in case["pairs"]]
        peak_same = statistics.median(pair["ours"]["peak_bytes"] / pair["theirs"]["peak_bytes"] for pair in case["pairs"])
        group, _, rows = name.partition(".")
        peak = peak_same
        if group == "on":
            peak = median_of(case, "ours", "peak_bytes") / theirs_off[rows] if rows in theirs_off else None
        figures = {
            "speed": statistics.median(speeds),
            "peak": peak,
            "spread": (max(speeds) - min(speeds)) / statistics.median(speeds),
            "pairs": len(case["pairs"]),
            "repeated": case["repeated"],
            "peak_same": peak_same,
            "tokens_per_sec": {side: median_of(case, side, "tokens_per_sec") for side in ("ours", "theirs")},
            "peak_bytes": {side: median_of(case, side, "peak_bytes") for side in ("ours", "theirs")},
            "products": case["products_secs"] / median_of(case, "ours", "step_secs") if case["products_secs"] else None,
            "raw": case["pairs"],
        }
        report.setdefault(group, {})
        if rows:
            report[group][rows] = figures
        else:
            report[group] = figures
        first_steps += [pair["ours"]["first_step_secs"] / pair["theirs"]["first_step_secs"] for pair in case["pairs"]]
        differences += [relative_step_error(pair["ours"]["losses"], pair["theirs"]["losses"]) for pair in case["pairs"]]
    report["first_step"] = statistics.median(first_steps)
    report["loss_diff"] = max(differences)
    return report


def median_of(case: dict[str, Any], side: str, figure: str) -> float:
    """Median of a figure of one side over the pairs."""
    return statistics.median(pair[side][figure] for pair in case["pairs"])


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"{'case':12} {'speed':>7} {'spread':>7} {'peak':>6} {'products':>9} {'tokens/s ours, theirs':>22} {'repeated':>9}"]
    cases = {f"{group}.{rows}": report[group][rows] for group in ("off", "on") for rows in report.get(group, {})}
    if "sql_rows" in report:
        cases["sql_rows"] = report["sql_rows"]
    for name, figures in cases.items():
        speeds = figures["tokens_per_sec"]
        products = f"{figures['products']:.0%}" if figures["products"] else "–"
        peak = f"{figures['peak']:.2f}" if figures["peak"] else "–"
        lines.append(
            f"{name:12} {figures['speed']:6.2f}x {figures['spread']:7.1%} {peak:>6} {products:>9} {speeds['ours']:11.0f} {speeds['theirs']:10.0f} {figures['repeated']:9}"
        )
    lines.append(f"first step {report['first_step']:.2f} of theirs; losses within {report['loss_diff']:.1e}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
