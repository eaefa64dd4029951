"""Tiny random models of each architecture, so that a comparison takes seconds and still meets every special case.

Norm weights, biases and the q/k norms are random too: with their usual start (ones and zeros) an engine that forgot them would
still agree. The Llama model's rope scaling has its original context within the rows' length, so that all three of its bands matter.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from reference import Row

ARCHITECTURES = ["llama", "qwen2", "qwen3"]


@dataclass(frozen=True)
class Size:
    """How large a tiny model is."""

    hidden: int
    intermediate: int
    layers: int
    vocab: int
    head_dim: int
    heads: int = 4
    kv_heads: int = 2


PARITY_SIZE = Size(hidden=64, intermediate=160, layers=3, vocab=512, head_dim=16)
# Small enough for a repository: a folder of weights and adapter stays under 300 KB.
FIXTURE_SIZE = Size(hidden=40, intermediate=80, layers=2, vocab=256, head_dim=10)


def make(architecture: str, size: Size, seed: int) -> PreTrainedModel:
    """A model with random weights that depend on the seed alone."""
    common: dict[str, Any] = {
        "vocab_size": size.vocab,
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "max_position_embeddings": 256,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if architecture == "llama":
        rope = {
            "rope_type": "llama3",
            "rope_theta": 10_000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
        config = LlamaConfig(**common, rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=False)
        model = LlamaForCausalLM(config)
    elif architecture == "qwen2":
        rope = {"rope_type": "default", "rope_theta": 1_000_000.0}
        config = Qwen2Config(**common, rope_parameters=rope, rms_norm_eps=1e-6, tie_word_embeddings=True)
        model = Qwen2ForCausalLM(config)
    elif architecture == "qwen3":
        rope = {"rope_type": "default", "rope_theta": 1_000_000.0}
        # Wider heads than hidden / heads, as the small models of this family have.
        config = Qwen3Config(**common, head_dim=size.head_dim + 8, rope_parameters=rope, rms_norm_eps=1e-6, tie_word_embeddings=False)
        model = Qwen3ForCausalLM(config)
    else:
        raise ValueError(f"unknown architecture {architecture}")
    fill(model, seed)
    return model.float().eval()


@torch.no_grad()
def fill(model: PreTrainedModel, seed: int) -> None:
    """Gives every weight a random value of a scale that keeps activations near one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        if name.endswith("norm.weight"):
            parameter.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith("bias"):
            parameter.normal_(0.0, 0.5, generator=generator)
        elif "embed_tokens" in name:
            parameter.normal_(0.0, 0.25, generator=generator)
        else:
            parameter.normal_(0.0, 1.0 / math.sqrt(parameter.shape[-1]), generator=generator)


def save(model: PreTrainedModel, folder: Path, older_config: bool) -> None:
    """Saves configuration and weights.

    `older_config` writes the rope settings as published models have them, `rope_theta` and `rope_scaling` at the top; the current
    form is one `rope_parameters`. Both are common, so both are compared.
    """
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config_path = folder / "config.json"
    config = json.loads(config_path.read_text())
    if older_config:
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
        config["torch_dtype"] = config.pop("dtype")
    config_path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def random_rows(vocab: int, count: int, shortest: int, longest: int, seed: int) -> list[Row]:
    """Rows of different lengths; a prompt of random length is not supervised, nor is a token here and there."""
    generator = torch.Generator().manual_seed(seed)

    def below(limit: int) -> int:
        return int(torch.randint(limit, (1,), generator=generator).item())

    rows = []
    for index in range(count):
        length = (shortest, longest)[index] if index < 2 else shortest + below(longest - shortest + 1)
        prompt = 1 + below(length // 2)
        supervised = [position >= prompt and below(8) > 0 for position in range(length)]
        supervised[-1] = True
        rows.append(Row([below(vocab) for _ in range(length)], supervised))
    return rows


def random_prompts(vocab: int, lengths: list[int], seed: int) -> list[list[int]]:
    """Random tokens of the given lengths."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(vocab, (length,), generator=generator).tolist() for length in lengths]
