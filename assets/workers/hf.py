"""Tunesmith's second engine: transformers and PEFT behind the words of docs/PROTOCOL.md.

It trains what the Rust engine trains, on the same rows and with the same conventions, in the way that users of these libraries
would: rows padded to the longest of their micro-batch, `scaled_dot_product_attention` or the model's eager attention, the model's own
loss, torch's AdamW, gradient checkpointing where layers are to be recomputed, bitsandbytes' `Linear4bit` for a base in 4 bits. So it serves for comparison on equal terms. It does one job, `train`,
and leaves. Needs torch, transformers and peft; `gguf` for GGUF files.
"""

import json
import math
import os
import queue
import struct
import sys
import threading
import time
import traceback

# Models lie on this machine; nothing is looked up elsewhere. Libraries read these while they are imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
# stdout belongs to the protocol: what libraries print goes to stderr, which the parent logs.
WIRE = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)


class Inbox:
    """What the parent says. The end of stdin ends the process at once, without saving, also while libraries are imported."""

    def __init__(self):
        self.lines = queue.SimpleQueue()
        self.stop = None
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in sys.stdin:
            message = parse(line)
            if message.get("type") == "stop":
                self.stop = message.get("how")
                if self.stop == "now":
                    os._exit(1)
            else:
                self.lines.put(message)
        os._exit(1)


def parse(line):
    """A line as a message; an empty one for text that is none."""
    try:
        message = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return message if isinstance(message, dict) else {}


INBOX = Inbox()

import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

PROTOCOL_VERSION = 1
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
IGNORED_LABEL = -100


class Refused(Exception):
    """The job asks for what this engine does not do."""


def say(type_, **fields):
    """Writes one message. Numbers that are not finite become null: JSON has none of them."""
    fields = {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in fields.items()}
    WIRE.write(json.dumps({"type": type_, **fields}, allow_nan=False) + "\n")
    WIRE.flush()


def main():
    """Says hello, does the job, says bye; the exit status is 0 when the job was done."""
    backend = "hip" if torch.version.hip else "cuda" if torch.cuda.is_available() else "cpu"
    say(
        "hello",
        protocol=PROTOCOL_VERSION,
        engine="hf",
        engine_version=f"transformers {transformers.__version__}",
        torch=torch.__version__,
        backend=backend,
        threads=torch.get_num_threads(),
    )
    job = INBOX.lines.get()
    if job.get("type") != "job":
        return 1
    status = "crashed"
    try:
        status = train(job, time.monotonic())
    except Refused as error:
        say("error", code="unsupported", message=str(error), hints=["use the engine `native` for this"])
    except torch.OutOfMemoryError as error:
        status = "oom"
        say("error", code="out_of_memory", message=str(error).splitlines()[0], hints=["make `batch.micro_batch` smaller", "set `train.recompute` to `layer`"])
    except Exception as error:  # noqa: BLE001  (the edge of the job: whatever happened must reach the parent)
        traceback.print_exc()
        say("error", code="worker_failed", message=f"{type(error).__name__}: {error}", hints=["the run's log has the traceback"])
    say("bye", status=status)
    return {"ok": 0, "cancelled": 130}.get(status, 1)


def train(job, arrived):
    """Fine-tunes an adapter; gives the status for `bye`. Times count from `arrived`, when the job came."""
    check(job)
    if job.get("threads"):
        torch.set_num_threads(job["threads"])
    device = torch.device(job["device"])
    limit_memory(device)
    rows = read_rows(job["rows"])
    model = load_model(job, device)
    weight_bytes = frozen_bytes(model)
    settings = job["optimizer"]
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=settings["learning_rate"],
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["eps"],
        weight_decay=settings["weight_decay"],
    )
    next_row = row_walk(len(rows), job["order"], job["seed"])
    load_secs = time.monotonic() - arrived
    reset_peaks(device)
    model.train()
    totals = {"real_tokens": 0, "padded_tokens": 0, "supervised_tokens": 0}
    stats = {"steps": 0, "first_step_secs": 0.0, "total_secs": 0.0}
    for step in range(job["steps"]):
        if INBOX.stop:
            break
        started = time.monotonic()
        rate = learning_rate(settings, step, job["steps"])
        for group in optimizer.param_groups:
            group["lr"] = rate
        chosen = [[rows[next(next_row)] for _ in range(job["batch"]["micro_batch"])] for _ in range(job["batch"]["accumulation"])]
        supervised = sum(sum(marks[1:]) for micro_batch in chosen for _, marks in micro_batch)
        loss, squared_lengths = 0.0, 0
        for micro_batch in chosen:
            batch = padded(micro_batch, device)
            # The libraries' own rule for accumulation: sums over the whole step's supervised tokens.
            part = model(**batch, num_items_in_batch=max(supervised, 1), use_cache=False).loss
            part.backward()
            loss += part.item()
            count, width = batch["input_ids"].shape
            squared_lengths += count * width * width
            totals["padded_tokens"] += count * width
            totals["real_tokens"] += sum(len(ids) for ids, _ in micro_batch)
        totals["supervised_tokens"] += supervised
        limit = settings["max_grad_norm"] or math.inf
        grad_norm = torch.nn.utils.clip_grad_norm_(parameters, limit).item()
        if math.isfinite(loss) and math.isfinite(grad_norm):
            optimizer.step()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.monotonic()
        say(
            "step",
            step=step + 1,
            loss=loss,
            grad_norm=grad_norm,
            lr=rate,
            dt_secs=now - started,
            elapsed_secs=now - arrived,
            squared_lengths=squared_lengths,
            peak_bytes=device_peak(device),
            **totals,
        )
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            say("error", code="not_finite", message=f"loss or gradient of step {step + 1} is not finite", hints=["lower the learning rate"])
            return "nan"
        stats["steps"] = step + 1
        stats["total_secs"] = now - arrived
        if step == 0:
            stats["first_step_secs"] = now - arrived
    adapter = None
    if stats["steps"] and INBOX.stop != "after_step":
        model.save_pretrained(os.path.join(job["run_dir"], "adapter"))
        adapter = "adapter"
    say(
        "result",
        kind="train",
        load_secs=load_secs,
        trainable_parameters=sum(p.numel() for p in parameters),
        weight_bytes=weight_bytes,
        peak_bytes=device_peak(device),
        peak_process_bytes=process_peak(),
        adapter=adapter,
        **stats,
    )
    return "cancelled" if INBOX.stop else "ok"


def check(job):
    """Refuses what this engine does not do, by name."""
    if job.get("kind") != "train":
        raise Refused(f"this engine trains only; it was asked to {job.get('kind')}")
    if job.get("resume_from"):
        raise Refused("this engine does not go on from a checkpoint")
    if job["recompute"] not in ("none", "layer"):
        raise Refused(f"this engine recomputes nothing or whole layers, not `{job['recompute']}`")
    if job.get("quantization", "none") not in ("none", "nf4"):
        raise Refused(f"this engine knows no quantization `{job['quantization']}`")
    if job.get("attention", "sdpa") not in ("sdpa", "eager"):
        raise Refused(f"this engine knows no attention `{job['attention']}`")
    if job["device"].startswith("cuda") and not torch.cuda.is_available():
        raise Refused(f"{job['device']} was asked for, and this torch sees no GPU")


def load_model(job, device):
    """The frozen base with the adapter on it."""
    path = job["model"]
    options = {"dtype": DTYPES[job["dtype"]], "attn_implementation": job.get("attention", "sdpa")}
    if os.path.isfile(path):
        folder, name = os.path.split(path)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, **options)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(path, **options)
    if job.get("quantization", "none") == "nf4":
        quantise(model, device)
    model.to(device)
    if job["recompute"] == "layer":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if job.get("start_from"):
        return PeftModel.from_pretrained(model, job["start_from"], is_trainable=True)
    torch.manual_seed(job["seed"])
    lora = job["lora"]
    return get_peft_model(
        model,
        LoraConfig(
            r=lora["rank"],
            lora_alpha=lora["alpha"],
            lora_dropout=0.0,
            target_modules=list(lora["target_modules"]),
            bias="none",
            task_type="CAUSAL_LM",
        ),
    )


def quantise(model, device):
    """Stores the layers' linear weights in 4 bits, one after the other, in bitsandbytes' own modules."""
    try:
        import bitsandbytes
    except ImportError as error:
        raise Refused(
            f"a base in 4 bits needs bitsandbytes 0.50.2 in this engine's environment, and it cannot be imported: {error}"
        ) from error
    for layer in model.model.layers:
        for parent in (layer.self_attn, layer.mlp):
            for name, linear in list(parent.named_children()):
                if not isinstance(linear, torch.nn.Linear):
                    continue
                if not torch.isfinite(linear.weight).all():
                    raise Refused(f"{name} has weights that are not finite numbers, and such a block has no scale in 4 bits")
                four_bit = bitsandbytes.nn.Linear4bit(
                    linear.in_features,
                    linear.out_features,
                    bias=linear.bias is not None,
                    compute_dtype=linear.weight.dtype,
                    compress_statistics=True,
                    quant_type="nf4",
                    device="meta",
                )
                four_bit.weight = bitsandbytes.nn.Params4bit(
                    linear.weight.data, requires_grad=False, quant_type="nf4", blocksize=64, compress_statistics=True
                )
                four_bit.bias = linear.bias
                # Moving it to the device is what quantises it.
                setattr(parent, name, four_bit.to(device))
    # PEFT asks this before it puts its own kind of adapter on such modules.
    model.is_loaded_in_4bit = True


def frozen_bytes(model):
    """Bytes of the frozen weights on the device, the scales of 4-bit ones included."""
    total = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            continue
        total += parameter.numel() * parameter.element_size()
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            total += sum(part.numel() * part.element_size() for part in (state.absmax, state.state2.absmax, state.offset))
    return total


def read_rows(path):
    """Rows as (token ids, supervised marks)."""
    tensors = load_file(path)
    offsets = tensors["offsets"].tolist()
    ids, marks = tensors["input_ids"].tolist(), tensors["supervised"].tolist()
    rows = [(ids[start:end], marks[start:end]) for start, end in zip(offsets, offsets[1:])]
    if not rows:
        raise Refused("there are no rows to train on")
    return rows


def row_walk(count, order, seed):
    """Row numbers without end, epoch after epoch, in the order of docs/PROTOCOL.md, so that engines meet the same rows."""
    epoch = 0
    while True:
        yield from epoch_order(count, seed, epoch) if order == "shuffled" else range(count)
        epoch += 1


def epoch_order(count, seed, epoch):
    """Rows sorted by the words of 64 bits that the ChaCha8 stream with this key gives them."""
    blocks = -(-count // 8)
    key = numpy.frombuffer(struct.pack("<QQQQ", seed, epoch, 0, 0), dtype="<u4")
    start = numpy.zeros((16, blocks), dtype=numpy.uint32)
    start[:4] = numpy.frombuffer(b"expand 32-byte k", dtype="<u4")[:, None]
    start[4:12] = key[:, None]
    start[12] = numpy.arange(blocks, dtype=numpy.uint32)
    x = start.copy()

    def quarter(a, b, c, d):
        for target, source, mixed, left in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[target] += x[source]
            x[mixed] ^= x[target]
            x[mixed] = (x[mixed] << numpy.uint32(left)) | (x[mixed] >> numpy.uint32(32 - left))

    for _ in range(4):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12)
    words = numpy.ascontiguousarray((x + start).T).view("<u8").reshape(-1)[:count]
    return numpy.argsort(words, kind="stable").tolist()


def padded(rows, device):
    """Rows side by side, padded on the right to the longest; the mask alone says what is padding."""
    width = max(len(ids) for ids, _ in rows)
    input_ids = torch.zeros(len(rows), width, dtype=torch.int64)
    attention_mask = torch.zeros_like(input_ids)
    labels = torch.full_like(input_ids, IGNORED_LABEL)
    for index, (ids, marks) in enumerate(rows):
        tokens = torch.tensor(ids)
        input_ids[index, : len(ids)] = tokens
        attention_mask[index, : len(ids)] = 1
        labels[index, : len(ids)] = torch.where(torch.tensor(marks, dtype=torch.bool), tokens, IGNORED_LABEL)
    batch = {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}
    return {name: tensor.to(device) for name, tensor in batch.items()}


def learning_rate(settings, step, steps):
    """Rate of a step counted from 0: linear warm-up from zero, then the schedule (transformers' convention)."""
    warmup = settings["warmup_steps"]
    if step < warmup:
        return settings["learning_rate"] * step / max(warmup, 1)
    done = (step - warmup) / max(steps - warmup, 1)
    factor = {"constant": 1.0, "linear": max(0.0, 1.0 - done), "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[settings["schedule"]]
    return settings["learning_rate"] * factor


def limit_memory(device):
    """The share of the card that the parent allows: beyond it there is an error and no hang."""
    share = os.environ.get("TUNESMITH_MEMORY_FRACTION")
    if share and device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(float(share), device)


def reset_peaks(device):
    """Peaks count from here, after loading."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def device_peak(device):
    """Most bytes that the allocator held; torch tells for GPUs only."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def process_peak():
    """Most bytes that this process held (Linux: VmHWM)."""
    try:
        with open("/proc/self/status") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")), None)
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
