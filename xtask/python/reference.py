"""The reference that the engine is compared with: Hugging Face transformers and PEFT, written out step by step.

The training loop is spelled out instead of left to a trainer class, because the comparison needs every convention in plain
sight: which tokens count, how a step's loss is normalised, when the learning rate moves, what is clipped. The engine follows
the same conventions:

* `supervised[i]` says that token i is a target: its prediction from the tokens before it is trained. Token 0 never is.
* The loss of an optimizer step is the sum of cross-entropies over its supervised tokens divided by their count, over all
  micro-batches together; no mean of means.
* Rows are taken in the order of the file, and from the first one again after the last, also in the middle of a step.
* Step s (from 1) uses the learning rate of index i = s - 1: peak * i / max(1, warmup) while i < warmup, then
  peak * 0.5 * (1 + cos(pi * (i - warmup) / (steps - warmup))). The first step of a run with warm-up therefore changes nothing.
* The gradient norm is the L2 norm over all adapter weights before clipping; clipping multiplies by
  min(1, max_norm / (norm + 1e-6)).
* AdamW with decoupled weight decay on every adapter weight, bias correction, eps added to the root.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from torch.nn import functional
from transformers import PreTrainedModel, get_cosine_schedule_with_warmup

TARGET_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
IGNORED_LABEL = -100


@dataclass(frozen=True)
class Row:
    """One training row."""

    input_ids: list[int]
    supervised: list[bool]

    def __post_init__(self) -> None:
        assert len(self.input_ids) == len(self.supervised) and not self.supervised[0]


@dataclass(frozen=True)
class Settings:
    """Everything of a training that changes its numbers. Defaults are those of the comparison."""

    rank: int
    alpha: float = 32.0
    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    warmup_steps: int = 2
    max_grad_norm: float = 1.0
    micro_batch: int = 2
    accumulation: int = 2
    steps: int = 10


@dataclass
class Curve:
    """What ten steps came to."""

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)


def write_rows(path: Path, rows: list[Row]) -> None:
    """Writes rows in the form that every engine trains on: flat tokens, flat marks, offsets of the rows."""
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row.input_ids))
    tensors = {
        "input_ids": torch.tensor([t for row in rows for t in row.input_ids], dtype=torch.int32),
        "supervised": torch.tensor([s for row in rows for s in row.supervised], dtype=torch.uint8),
        "offsets": torch.tensor(offsets, dtype=torch.int64),
    }
    save_file(tensors, path)


def add_adapter(model: PreTrainedModel, settings: Settings, seed: int, random_b: bool) -> PeftModel:
    """Puts a LoRA adapter on all seven projections of every layer, with a start that depends on the seed alone.

    A is uniform in +-1/sqrt(inputs), as PEFT starts it. B is zero, as PEFT starts it, or random, so that A has a gradient
    from the first step on.
    """
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=0.0,
        target_modules=list(TARGET_MODULES),
        bias="none",
        task_type="CAUSAL_LM",
    )
    peft_model = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(adapter_parameters(peft_model).items()):
            if ".lora_A." in name:
                bound = 1.0 / math.sqrt(parameter.shape[1])
                parameter.uniform_(-bound, bound, generator=generator)
            elif random_b:
                parameter.normal_(0.0, 0.02, generator=generator)
            else:
                parameter.zero_()
    return peft_model


def adapter_parameters(peft_model: PeftModel) -> dict[str, torch.nn.Parameter]:
    """The trainable weights by name; exactly the LoRA matrices."""
    parameters = {name: p for name, p in peft_model.named_parameters() if p.requires_grad}
    assert parameters and all(".lora_" in name for name in parameters)
    return parameters


def save_adapter(peft_model: PeftModel, folder: Path) -> None:
    """Lets PEFT write the adapter, then makes the folder the same on every run: sorted modules, no model card."""
    peft_model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config_path = folder / "adapter_config.json"
    config = json.loads(config_path.read_text())
    config["target_modules"] = sorted(config["target_modules"])
    config["base_model_name_or_path"] = ""
    config_path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def padded_batch(rows: list[Row]) -> dict[str, torch.Tensor]:
    """Rows side by side, padded on the right. The padding id is 0 and means nothing: the mask alone says what is padding."""
    longest = max(len(row.input_ids) for row in rows)
    input_ids = torch.zeros(len(rows), longest, dtype=torch.int64)
    attention_mask = torch.zeros(len(rows), longest, dtype=torch.int64)
    labels = torch.full((len(rows), longest), IGNORED_LABEL, dtype=torch.int64)
    for index, row in enumerate(rows):
        length = len(row.input_ids)
        input_ids[index, :length] = torch.tensor(row.input_ids)
        attention_mask[index, :length] = 1
        for position, (token, supervised) in enumerate(zip(row.input_ids, row.supervised, strict=True)):
            if supervised:
                labels[index, position] = token
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def train(peft_model: PeftModel, rows: list[Row], settings: Settings) -> Curve:
    """Trains the adapter in place and returns loss, gradient norm and learning rate of every step."""
    peft_model.train()
    parameters = list(adapter_parameters(peft_model).values())
    optimizer = torch.optim.AdamW(
        parameters,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
    )
    scheduler = get_cosine_schedule_with_warmup(optimizer, settings.warmup_steps, settings.steps)
    rows_per_step = settings.micro_batch * settings.accumulation
    curve = Curve()
    for step in range(settings.steps):
        step_rows = [rows[(step * rows_per_step + i) % len(rows)] for i in range(rows_per_step)]
        supervised_tokens = sum(sum(row.supervised) for row in step_rows)
        optimizer.zero_grad()
        loss_sum = 0.0
        for start in range(0, rows_per_step, settings.micro_batch):
            batch = padded_batch(step_rows[start : start + settings.micro_batch])
            logits = peft_model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
            token_loss_sum = functional.cross_entropy(
                logits[:, :-1].flatten(0, 1).float(),
                batch["labels"][:, 1:].flatten(),
                ignore_index=IGNORED_LABEL,
                reduction="sum",
            )
            (token_loss_sum / supervised_tokens).backward()
            loss_sum += token_loss_sum.item()
        grad_norm = torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        curve.loss.append(loss_sum / supervised_tokens)
        curve.grad_norm.append(grad_norm.item())
        curve.lr.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    peft_model.eval()
    return curve


@torch.no_grad()
def logits_of(model: torch.nn.Module, prompts: list[list[int]]) -> list[torch.Tensor]:
    """Logits `[tokens, vocabulary]` of each prompt, computed one by one, so that no padding can take part."""
    model.eval()
    return [model(input_ids=torch.tensor([ids])).logits[0].float() for ids in prompts]


@torch.no_grad()
def greedy(model: PreTrainedModel, prompt: list[int], tokens: int) -> tuple[list[int], float]:
    """Greedy continuation by transformers' own `generate`, and the smallest lead of a chosen token over the next best one.

    The lead matters: where two tokens are almost level, rounding decides, and the continuation proves nothing.
    """
    model.eval()
    output = model.generate(
        input_ids=torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        use_cache=True,
    )[0].tolist()
    logits = logits_of(model, [output])[0][len(prompt) - 1 : -1]
    best = logits.topk(2, dim=-1).values
    return output[len(prompt) :], (best[:, 0] - best[:, 1]).min().item()


def relative_error(actual: Any, expected: Any) -> float:
    """max |a - b| / max |b| over tensors, or lists of tensors taken together."""
    if isinstance(actual, torch.Tensor):
        actual, expected = [actual], [expected]
    for a, b in zip(actual, expected, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"shapes differ: {list(a.shape)} and {list(b.shape)}")
        if not torch.isfinite(a).all():
            return math.inf
    difference = max((a.double() - b.double()).abs().max().item() for a, b in zip(actual, expected, strict=True))
    return difference / max(b.double().abs().max().item() for b in expected)


def relative_step_error(actual: list[float | None], expected: list[float]) -> float:
    """Largest |a - b| / |b| over steps; infinite where a step is missing or not finite."""
    if len(actual) != len(expected) or any(a is None or not math.isfinite(a) for a in actual):
        return math.inf
    return max(abs(a - b) / abs(b) if b else (0.0 if a == 0 else math.inf) for a, b in zip(actual, expected, strict=True))
