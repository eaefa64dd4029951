"""Checks a device and the engine on it, in one run of at most eight minutes.

    python device_check.py --engine PATH --torch SITE [--device cuda:0] [--json] [--keep DIR] [--minutes 8]

For any machine with torch 2.11.0, transformers and peft; on one without a GPU it checks the processor with small sizes. In order:

* `loading`: the engine starts, opens the GPU library of this torch, and says so.
* `calibration`: matrix products in three layouts, and values against float64 of products, attention and a LoRA layer.
* `same_as_cpu`: ten steps on the device equal ten steps on the processor (tiny Llama, Qwen2 and Qwen3 models, f32).
* `four_bit`: the same with a base in 4 bits, and with attention written out and rows padded; on a GPU also in bf16, where every loss
  must be a number.
* `out_of_memory`: a training that asks for more memory than it may have ends with the status `oom`, and the next one works.
* `speed`: tokens per second and peak memory against transformers + PEFT, on a model of Qwen2.5-3B's shape with random weights, 2 rows
  of 256 and 8 of 1,024 tokens, with and without recomputing layers. One pair each: a first look, no benchmark.

What the time does not suffice for is left out and named under `skipped`. Exit status: 0 all passed, 1 not, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
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

import tiny_models
from engine_client import Engine, EngineFailure, EngineRun
from note import note
from reference import TARGET_MODULES, Row, Settings, relative_step_error, write_rows

REPOSITORY = Path(__file__).resolve().parents[2]
WORKER = REPOSITORY / "assets/workers/hf.py"
SAME_AS_CPU_LIMIT = 1e-3
WARMUP_STEPS = 3
STEPS = 10


@dataclass(frozen=True)
class Shape:
    """A model of Qwen2's architecture with random weights, and the rows that it is timed on."""

    config: dict[str, Any]
    dtype: str
    rows: list[tuple[int, int]]
    """(rows per step, tokens per row)"""


QWEN_3B = Shape(
    {"vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2},
    "bf16",
    [(2, 256), (8, 1024)],
)
SMALL = Shape(
    {"vocab_size": 4096, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2},
    "f32",
    [(2, 64), (4, 128)],
)


class Checks:
    """Runs checks while there is time, and keeps what each came to."""

    def __init__(self, minutes: float) -> None:
        self.start = time.monotonic()
        self.end = self.start + 60 * minutes
        self.results: dict[str, Any] = {}
        self.skipped: list[str] = []
        self.failed: list[str] = []

    def run(self, name: str, secs: float, check: Callable[[], dict[str, Any]]) -> None:
        """Runs a check that takes about `secs`, unless the time left is shorter."""
        if time.monotonic() + secs > self.end:
            self.skipped.append(name)
            note(f"{name}: left out, the time does not suffice")
            return
        note(name)
        started = time.monotonic()
        try:
            result = check()
        except (EngineFailure, OSError, ValueError, KeyError, RuntimeError) as error:
            result = {"passed": False, "error": f"{type(error).__name__}: {error}"}
        result["secs"] = time.monotonic() - started
        self.results[name] = result
        if not result["passed"]:
            self.failed.append(name)
            note(f"{name}: NOT passed: {json.dumps(result)[:1500]}")


def main() -> int:
    """Checks, and prints the result."""
    arguments = parse_arguments()
    transformers.logging.set_verbosity_error()
    on_gpu = arguments.device != "cpu"
    engine = Engine(arguments.engine, arguments.torch, arguments.threads, device=arguments.device)
    checks = Checks(arguments.minutes)
    with tempfile.TemporaryDirectory(prefix="tunesmith-device-check-") as temporary:
        work = (arguments.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        checks.run("loading", 10, lambda: loading(engine, work))
        checks.run("calibration", 40, lambda: calibration(engine, work))
        checks.run("same_as_cpu", 40, lambda: same_as_cpu(engine, work))
        checks.run("four_bit", 30, lambda: four_bit(engine, work))
        checks.run("out_of_memory", 30, lambda: out_of_memory(engine, work))
        shape = QWEN_3B if on_gpu else SMALL
        made: dict[str, Path] = {}
        checks.run("random_model", 60 if on_gpu else 5, lambda: random_model(shape, work, made))
        if made:
            for rows, tokens in shape.rows:
                for recompute in ("none", "layer"):
                    estimate = 60 if on_gpu else 40
                    checks.run(
                        f"speed {rows}x{tokens} recompute {recompute}",
                        estimate,
                        lambda rows=rows, tokens=tokens, recompute=recompute: speed(engine, shape, made["folder"], rows, tokens, recompute, work),
                    )
    report = {
        "device": device_name(arguments.device),
        "versions": {"torch": torch.__version__, "hip": torch.version.hip, "cuda": torch.version.cuda, "transformers": transformers.__version__},
        "passed": not checks.failed,
        "failed": checks.failed,
        "skipped": checks.skipped,
        "secs": time.monotonic() - checks.start,
        "checks": checks.results,
    }
    print(json.dumps(report, indent=2, allow_nan=False) if arguments.json else table(report))
    return 0 if report["passed"] else 1


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", type=Path, required=True, metavar="PATH", help="the engine program")
    parser.add_argument("--torch", type=Path, required=True, metavar="SITE", help="folder that holds torch/lib, for the engine")
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda:N (ROCm too); the first GPU where torch sees one, else cpu")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep models, rows and what the engines said in DIR")
    parser.add_argument("--minutes", type=float, default=8.0, help="longest run (default 8)")
    parser.add_argument("--threads", type=int, default=min(16, os.cpu_count() or 2), help="threads on the processor")
    arguments = parser.parse_args()
    for path in (arguments.engine, arguments.torch / "torch" / "lib"):
        if not path.exists():
            parser.error(f"{path} does not exist")
    arguments.engine, arguments.torch = arguments.engine.resolve(), arguments.torch.resolve()
    arguments.device = arguments.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    return arguments


def device_name(device: str) -> str:
    """The device as its driver calls it."""
    return f"{device}: {torch.cuda.get_device_name(device)}" if device.startswith("cuda") else device


def loading(engine: Engine, work: Path) -> dict[str, Any]:
    """The engine starts and opens the right library."""
    run = train(engine, work, "loading", tiny(work, "llama"), "f32", steps=1)
    expected = "cpu" if engine.device == "cpu" else "hip" if torch.version.hip else "cuda"
    found = run.hello["backend"]
    # A wheel with a GPU part opens it also where the job is for the processor.
    right = found == expected or (expected == "cpu" and not torch.cuda.is_available())
    return {"passed": right and run.hello["torch"].startswith("2.11."), "backend": found, "expected": expected, "torch": run.hello["torch"]}


def calibration(engine: Engine, work: Path) -> dict[str, Any]:
    """Products, kernels and copies; every value must be right."""
    result = engine.run(work / "calibration", "calibrate", budget_secs=25.0, bf16_in_hardware=engine.device != "cpu").result
    values = [part["values"]["passed"] for part in result["gemm"] + result["kernels"]]
    return {"passed": bool(values) and all(values), "gemm": result["gemm"], "kernels": result["kernels"], "copy": result["copy"]}


def same_as_cpu(engine: Engine, work: Path) -> dict[str, Any]:
    """Ten steps on both; on a machine without a GPU the processor with one thread against all."""
    other = replace(engine, device="cpu", threads=1 if engine.device == "cpu" else engine.threads)
    errors = {}
    for architecture in tiny_models.ARCHITECTURES:
        model = tiny(work, architecture)
        here = train(engine, work, f"{architecture}-device", model, "f32", steps=STEPS)
        there = train(other, work, f"{architecture}-cpu", model, "f32", steps=STEPS)
        errors[architecture] = max(
            relative_step_error([step[figure] for step in here.steps], [step[figure] for step in there.steps]) for figure in ("loss", "grad_norm")
        )
    return {"passed": max(errors.values()) <= SAME_AS_CPU_LIMIT, "errors": errors, "limit": SAME_AS_CPU_LIMIT}


def four_bit(engine: Engine, work: Path) -> dict[str, Any]:
    """Ten steps on a 4-bit base on both, and on the device in bf16."""
    other = replace(engine, device="cpu", threads=1 if engine.device == "cpu" else engine.threads)
    model = tiny(work, "qwen3")
    ways = {"nf4": {"quantization": "nf4"}, "eager_padded": {"attention": "eager", "packing": False}}
    errors = {}
    for name, changes in ways.items():
        here = train(engine, work, f"{name}-device", model, "f32", steps=STEPS, **changes)
        there = train(other, work, f"{name}-cpu", model, "f32", steps=STEPS, **changes)
        errors[name] = max(
            relative_step_error([step[figure] for step in here.steps], [step[figure] for step in there.steps]) for figure in ("loss", "grad_norm")
        )
    passed = max(errors.values()) <= SAME_AS_CPU_LIMIT
    if engine.device != "cpu":
        narrow = train(engine, work, "nf4-bf16", model, "bf16", steps=STEPS, quantization="nf4")
        passed = passed and all(step["loss"] is not None and step["grad_norm"] is not None for step in narrow.steps)
    return {"passed": passed, "errors": errors, "limit": SAME_AS_CPU_LIMIT}


def out_of_memory(engine: Engine, work: Path) -> dict[str, Any]:
    """Too little memory ends a training with `oom`, and does no harm to the next one."""
    model = tiny(work, "llama")
    if engine.device == "cpu":
        # libtorch alone maps some gigabytes; the limit lets it load and leaves the training too little.
        limit = 6 << 30
        starved = replace(engine, before_start=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    else:
        starved = replace(engine, variables={"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.01", "PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.01"})
    rows = [Row([index % 400 for index in range(256)], [position > 0 for position in range(256)])] * 64
    write_rows(work / "oom.safetensors", rows)
    try:
        train(starved, work, "oom", model, "f32", steps=1, rows=work / "oom.safetensors", micro_batch=40_000)
    except EngineFailure as failure:
        text = str(failure)
        survived = len(train(engine, work, "after-oom", model, "f32", steps=2).steps) == 2
        return {"passed": "out_of_memory" in text and survived, "said": text.splitlines()[0], "next_training": survived}
    raise ValueError("the training had too little memory and did not notice")


def tiny(work: Path, architecture: str) -> Path:
    """A tiny random model as a folder, with rows beside it."""
    folder = work / f"tiny-{architecture}"
    if not folder.exists():
        size = tiny_models.PARITY_SIZE
        tiny_models.save(tiny_models.make(architecture, size, seed=11), folder, older_config=False)
        write_rows(folder / "rows.safetensors", tiny_models.random_rows(size.vocab, count=10, shortest=5, longest=48, seed=3))
    return folder


def random_model(shape: Shape, work: Path, made: dict[str, Path]) -> dict[str, Any]:
    """Writes a model of a real one's shape with random weights."""
    device = "cuda:0" if shape is QWEN_3B else "cpu"
    config = transformers.Qwen2Config(**shape.config, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    with torch.device(device):
        model = transformers.Qwen2ForCausalLM(config).to({"bf16": torch.bfloat16, "f32": torch.float32}[shape.dtype])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    model.save_pretrained(work / "random-model")
    made["folder"] = work / "random-model"
    del model
    if device != "cpu":
        torch.cuda.empty_cache()
    return {"passed": True, "parameters": parameters}


def speed(engine: Engine, shape: Shape, folder: Path, rows: int, tokens: int, recompute: str, work: Path) -> dict[str, Any]:
    """Both sides on the same rows; one pair."""
    name = f"{rows}x{tokens}-{recompute}"
    path = work / f"rows-{rows}x{tokens}.safetensors"
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(shape.config["vocab_size"], (rows, tokens), generator=generator).tolist()
    write_rows(path, [Row(row, [position > 0 for position in range(tokens)]) for row in ids])
    theirs = replace(engine, program=Path(sys.executable), torch_site=Path(torch.__file__).parents[1], arguments=(str(WORKER),))
    figures: dict[str, Any] = {}
    for side, program in (("ours", engine), ("theirs", theirs)):
        try:
            run = train(program, work, f"{name}-{side}", folder, shape.dtype, steps=STEPS, rows=path, micro_batch=rows, recompute=recompute)
        except EngineFailure as failure:
            # Out of memory on one side is a result, not a failed check.
            if "out_of_memory" not in str(failure):
                raise
            figures[side] = {"status": "oom"}
            continue
        secs = statistics.median(step["dt_secs"] for step in run.steps[WARMUP_STEPS:])
        peak = run.result["peak_bytes"] if engine.device != "cpu" else run.result["peak_process_bytes"]
        figures[side] = {"status": "ok", "tokens_per_sec": rows * tokens / secs, "peak_bytes": peak, "first_loss": run.steps[0]["loss"]}
    both = all(figures[side]["status"] == "ok" for side in figures)
    if both:
        figures["speed"] = figures["ours"]["tokens_per_sec"] / figures["theirs"]["tokens_per_sec"]
        figures["peak"] = figures["ours"]["peak_bytes"] / figures["theirs"]["peak_bytes"]
    return {"passed": figures["ours"]["status"] == "ok", **figures}


def train(
    engine: Engine,
    work: Path,
    name: str,
    model: Path,
    dtype: str,
    steps: int,
    rows: Path | None = None,
    micro_batch: int = 2,
    recompute: str = "none",
    **changes: Any,
) -> EngineRun:
    """One training on the device. `changes` are further fields of the job."""
    settings = Settings(rank=16 if rows else 8)
    return engine.run(
        work / name,
        "train",
        model=str(model),
        rows=str(rows or model / "rows.safetensors"),
        dtype=dtype,
        lora={"rank": settings.rank, "alpha": settings.alpha, "target_modules": TARGET_MODULES},
        optimizer={
            "learning_rate": 1e-3,
            "beta1": 0.9,
            "beta2": 0.999,
            "eps": 1e-8,
            "weight_decay": 0.0,
            "warmup_steps": 0,
            "schedule": "constant",
            "max_grad_norm": 1.0,
        },
        batch={"micro_batch": micro_batch, "accumulation": 1},
        steps=steps,
        recompute=recompute,
        order="sequential",
        seed=3407,
        **changes,
    )


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"{report['device']}, torch {report['versions']['torch']}, {report['secs']:.0f} s"]
    for name, check in report["checks"].items():
        line = f"{'passed' if check['passed'] else 'FAILED':8} {name}"
        if "speed" in check:
            line += f": {check['ours']['tokens_per_sec']:.0f} tokens/s, {check['speed']:.2f} times transformers + PEFT, {check['peak']:.2f} of its memory"
        if "error" in check:
            line += f": {check['error'].splitlines()[0]}"
        lines.append(line)
    lines += [f"left out {name}" for name in report["skipped"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
