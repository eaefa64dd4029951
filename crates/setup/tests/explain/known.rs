//! Texts of known faults, as the project's fault log has them and as they vary: other cards, paths, nodes, versions.

/// The number in the fault log, the fault's id, and texts that show it.
pub(crate) const CASES: &[(&str, &str, &[&str])] = &[
    (
        "B01",
        "kfd-permission",
        &["`torch.cuda.is_available()` is False for one account, True for another on the same machine"],
    ),
    (
        "B02",
        "kfd-permission",
        &[
            "Unable to open /dev/kfd read-write: Permission denied",
            "Unable to open /dev/dri/renderD128 read-write: Permission denied",
            "rocminfo: failed to open /dev/kfd: Permission denied (errno 13)",
            "ana is not member of \"render\" group, the default DRM access group. Users must be a member of the \"render\" group or another DRM access group in order for ROCm applications to run successfully.",
        ],
    ),
    (
        "B03",
        "installer-missed-card",
        &[
            "No GPU detected -- installing CPU-only PyTorch",
            "  No GPU detected — installing CPU-only PyTorch",
            "gpu: none (no GPU detected, CPU-only torch will be installed)",
        ],
    ),
    (
        "B04",
        "kfd-permission",
        &["device is CPU, VRAM 0, though `/dev/kfd` was passed in"],
    ),
    (
        "B05",
        "no-gpu-visible",
        &[
            "No CUDA GPUs are available",
            "RuntimeError: No HIP GPUs are available",
            "torch._C._cuda_init() RuntimeError: No CUDA GPUs are available",
            "torch.AcceleratorError: CUDA error: no ROCm-capable device is detected",
            "hipErrorNoDevice",
        ],
    ),
    (
        "B06",
        "pcie-atomics",
        &[
            "Pcie atomics not enabled, hostcall not supported",
            "`Pcie atomics not enabled, hostcall not supported`; `torch.sum` hangs, then MES failure and a GPU reset",
            ":1:rocdevice.cpp:2614: 2910 us: [pid:77 tid:0x7f] Pcie atomics not enabled, hostcall not supported",
        ],
    ),
    (
        "B07",
        "pcie-atomics",
        &[
            "kfd kfd: skipped device 1002:…, PCI rejects atomics",
            "kfd kfd: skipped device 1002:67df, PCI rejects atomics",
            "kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0",
            "kfd kfd: amdgpu: skipped device 1002:7480, PCI rejects atomics 509<0",
        ],
    ),
    (
        "B08",
        "gpu-memory-fault",
        &[
            "Memory access fault by GPU node-1 … Page not present or supervisor privilege",
            "Memory access fault by GPU node-1 (Agent handle: 0x55d0c7b0) on address 0x7f8c0a000000. Reason: Page not present or supervisor privilege.",
            "Memory access fault by GPU node-2 (Agent handle: 0x2f1a830) on address (nil). Reason: Unknown.",
        ],
    ),
    (
        "B09",
        "register-sizes-not-exported",
        &[
            "ROCm crashes on many workloads",
            "kfd node 1: cwsr_size and ctl_stack_size are not exported",
        ],
    ),
    (
        "B10",
        "dkms-shadows-amdgpu",
        &["kernel is new enough, ROCm still unusable"],
    ),
    (
        "B11",
        "segfault-at-hip-start",
        &[
            "process dies with exit 139 already at `torch.cuda.is_available()`, empty log",
            "python -c 'import torch; print(torch.cuda.is_available())' exited with code 139",
            "python3[4242]: segfault at 18 ip 00007f1c sp 00007ffd error 4 in libhsa-runtime64.so.1.18.0[7f1c+2c0000]",
            "+ python -c 'import torch; torch.cuda.is_available()'\nSegmentation fault (core dumped)",
        ],
    ),
    (
        "B12",
        "gpu-memory-fault",
        &["memory access fault at the first `.cuda()`"],
    ),
    (
        "B14",
        "module-key-rejected",
        &[
            "after a reboot amdgpu does not load; rocminfo says no module",
            "modprobe: ERROR: could not insert 'amdgpu': Key was rejected by service",
            "insmod: ERROR: could not insert module amdgpu.ko: Key was rejected by service",
        ],
    ),
    (
        "B14",
        "amdgpu-not-loaded",
        &["ROCk module is NOT loaded, possibly no GPU devices"],
    ),
    (
        "B15",
        "gpu-reset",
        &[
            "ring gfx_0.0.0 timeout",
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1051263, emitted seq=1051265",
            "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",
            "amdgpu 0000:c4:00.0: amdgpu: GPU reset(4) failed",
        ],
    ),
    (
        "B16",
        "gpu-reset",
        &[
            "MES failed to response msg=3",
            "ring sdma0 timeout",
            "amdgpu 0000:03:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
        ],
    ),
    (
        "B17",
        "gpu-reset",
        &[
            "ring comp_1.1.1",
            "amdgpu 0000:03:00.0: amdgpu: ring comp_1.1.1 timeout, signaled seq=9, emitted seq=11",
        ],
    ),
    (
        "B18",
        "gpu-page-fault",
        &["Studio's QLoRA gives a VM fault and a GPU reset"],
    ),
    (
        "B19",
        "gpu-reset",
        &["resets about 22× more often after an image update"],
    ),
    (
        "B20",
        "windows-driver-loses-cards",
        &["RDNA2 cards and iGPUs vanish from HIP after the update"],
    ),
    (
        "B21",
        "hsa-init-failed",
        &[
            "hsa_init Failed, possibly no supported GPU devices",
            "hsa api call failure at: /src/rocminfo.cc:1282 hsa_init Failed, possibly no supported GPU devices",
        ],
    ),
    (
        "B22",
        "wsl-memory-limit",
        &["usable GPU memory equals the WSL memory limit"],
    ),
    (
        "B23",
        "hsa-out-of-resources",
        &[
            "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
            "hsa api call failure at: /build/rocminfo/rocminfo.cc:1197\nCall returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources.",
        ],
    ),
    (
        "B24",
        "zero-bytes-free",
        &[
            "PyTorch sees 0 bytes free",
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15.92 GiB of which 0 bytes is free.",
        ],
    ),
    (
        "B24",
        "hsa-init-failed",
        &["rocminfo: /long/path/rocminfo.cc:88: Assertion `err == HSA_STATUS_SUCCESS' failed."],
    ),
    (
        "B84",
        "flatpak-without-kfd",
        &[
            "Can't get type of source /dev/kfd: Permission denied",
            "bwrap: Can't get type of source /dev/kfd: Permission denied",
            "the Flatpak build of an app does not see the AMD card while the plain build does",
        ],
    ),
    (
        "B85",
        "small-bar",
        &[
            "Detected VRAM RAM=16368M, BAR=256M",
            "amdgpu 0000:03:00.0: amdgpu: Detected VRAM RAM=24560M, BAR=256M",
        ],
    ),
    (
        "B25",
        "kernel-image-invalid",
        &[
            "device kernel image is invalid",
            "iGPU is cuda:0; the dGPU fails with `device kernel image is invalid`",
        ],
    ),
    (
        "B26",
        "kernel-image-invalid",
        &[
            "HIP error: device kernel image is invalid",
            "torch.AcceleratorError: CUDA error: device kernel image is invalid",
        ],
    ),
    (
        "B26",
        "windows-access-violation",
        &[
            "crash `0xC0000005` at the first allocation",
            "Process finished with exit code -1073741819 (0xC0000005)",
        ],
    ),
    ("B27", "integrated-card-first", &["work goes to the iGPU"]),
    (
        "B28",
        "integrated-card-first",
        &[
            "iGPU of Ryzen 9000: crash on load",
            "  Device 0: AMD Radeon Graphics, gfx1036 (0x1036), VMM: no, Wave Size: 32",
        ],
    ),
    (
        "B29",
        "kernel-image-invalid",
        &["RuntimeError: HIP error: shared object initialization failed"],
    ),
    (
        "B30",
        "installer-took-first-adapter",
        &["CPU-only or wrong-family torch installed; 28 GB \"VRAM\""],
    ),
    (
        "B31",
        "gpu-page-fault",
        &[
            "[gfxhub] page fault … client 10",
            "[gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32774) at page 0x00007f1c client 10",
            "amdgpu 0000:65:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:157 vmid:8 pasid:32775)",
            "amdgpu 0000:03:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:40 vmid:0 pasid:0)",
        ],
    ),
    (
        "B32",
        "override-misleads",
        &["installer thinks gfx1100 and picks a generic index"],
    ),
    (
        "B33",
        "override-misleads",
        &[
            "silent CPU fallback",
            "a script forced HSA_OVERRIDE_GFX_VERSION=9.0.0",
        ],
    ),
    (
        "B34",
        "no-kernels-for-card",
        &[
            "HIP error: invalid device function",
            "RuntimeError: HIP error: invalid device function\nHIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing AMD_SERIALIZE_KERNEL=3",
            "torch.AcceleratorError: HIP error: invalid device function",
            "\"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!\"",
        ],
    ),
    (
        "B35",
        "no-kernels-for-card",
        &["`HIP error: invalid device function` at the first op"],
    ),
    (
        "B36",
        "rocblas-no-kernels",
        &[
            "rocBLAS error: Cannot read …TensileLibrary.dat: Illegal seek for GPU arch: gfx1103",
            "rocBLAS error: Cannot read /home/a/venv/lib/python3.12/site-packages/torch/lib/rocblas/library/TensileLibrary.dat: Illegal seek for GPU arch : gfx1103",
            "rocBLAS error: Cannot read /opt/rocm-6.3.2/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1031",
        ],
    ),
    (
        "B37",
        "second-card-without-code",
        &["the second card is offered, jobs on it die at once"],
    ),
    (
        "B38",
        "no-wheels-for-card",
        &["AMD card found, CPU torch installed"],
    ),
    (
        "B39",
        "both-vendors-cuda-chosen",
        &["installers pick CUDA as soon as nvidia-smi lists a card"],
    ),
    (
        "B40",
        "nvidia-driver-too-old",
        &[
            "The NVIDIA driver on your system is too old (found version 11080)",
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver",
        ],
    ),
    (
        "B41",
        "cuda-torch-on-amd",
        &[
            "installing an unrelated package replaced torch+rocm by cu121",
            "    Uninstalling torch-2.5.1+rocm6.2:\n      Successfully uninstalled torch-2.5.1+rocm6.2\nSuccessfully installed nvidia-cublas-cu12-12.1.3.1 torch-2.5.1",
            " - torch==2.11.0+rocm7.2\n + torch==2.12.0+cu130",
        ],
    ),
    (
        "B42",
        "cuda-torch-on-amd",
        &[
            "Found no NVIDIA driver on your system",
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
            "AssertionError: Torch not compiled with CUDA enabled",
        ],
    ),
    (
        "B43",
        "cuda-torch-on-amd",
        &["ROCm index used, launcher still ran CUDA torch"],
    ),
    (
        "B44",
        "two-tritons",
        &[
            "`pytorch-triton-rocm` and PyPI `triton` both land in one environment",
            "pytorch-triton-rocm      3.1.0\nregex                    2024.11\ntriton                   3.1.0",
            "RuntimeError: 0 active drivers ([]). There should only be one.",
        ],
    ),
    (
        "B45",
        "triton-built-for-other-rocm",
        &["the rocm5.7 index served a Triton built for ROCm 6"],
    ),
    (
        "B46",
        "bnb-no-rocm-library",
        &[
            "Could not find the bitsandbytes ROCm binary at …libbitsandbytes_rocm63.so",
            "Could not find the bitsandbytes ROCm binary at PosixPath('/opt/venv/lib/python3.11/site-packages/bitsandbytes/libbitsandbytes_rocm61.so')",
        ],
    ),
    (
        "B47",
        "bnb-no-rocm-library",
        &[
            "Configured ROCm binary not found at …libbitsandbytes_rocm80.so",
            "Configured ROCm binary not found at /home/b/.venv/lib/python3.12/site-packages/bitsandbytes/libbitsandbytes_rocm84.so",
        ],
    ),
    (
        "B48",
        "bnb-warp-size",
        &["abort with blocksize 32; with blocksize 64 garbage (mean error ~0.73 against a 0.11 limit)"],
    ),
    (
        "B49",
        "bnb-four-bit-wrong",
        &["bitsandbytes ≤ 0.49.2 gives NaN on every AMD GPU", "4-bit NaN"],
    ),
    (
        "B50",
        "bnb-four-bit-slow",
        &["4-bit decode kernel at 49 % of the memory bandwidth"],
    ),
    (
        "B51",
        "bnb-no-kernels-for-card",
        &[
            "Error invalid device function … ops.hip",
            "Error invalid device function at line 102 in file /src/bitsandbytes/csrc/ops.hip",
        ],
    ),
    (
        "B52",
        "no-torch-for-python",
        &[
            "No matching distribution found for torch",
            "ERROR: No matching distribution found for torch==2.11.0+rocm7.13.0",
            "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)",
        ],
    ),
    (
        "B53",
        "gfx10-bf16",
        &[
            "LLVM ERROR: Cannot select: intrinsic %llvm.amdgcn.fdot2.bf16.bf16",
            "LLVM ERROR: Cannot select: intrinsic %llvm.amdgcn.fdot2.f32.bf16",
        ],
    ),
    (
        "B54",
        "grouped-mm-crash",
        &[
            "crash `0xC0000005` in `torch._grouped_mm`, not catchable",
            "  File \"moe.py\", line 90, in forward\n    out = torch._grouped_mm(x, w, offs)\nWindows fatal exception: access violation",
        ],
    ),
    (
        "B55",
        "amdgpu-unknown-parameter",
        &[
            "amdgpu: unknown parameter 'gtt_size' ignored",
            "amdgpu: unknown parameter 'gttsze' ignored",
        ],
    ),
    ("B55", "half-of-memory", &["ROCm sees 62.2 GB"]),
    (
        "B56",
        "half-of-memory",
        &["HIP out of memory … total capacity of 62.47 GiB"],
    ),
    (
        "B56",
        "gpu-out-of-memory",
        &[
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.98 GiB of which 1.02 GiB is free.",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB",
        ],
    ),
    (
        "B57",
        "half-of-memory",
        &["124 GiB configured, 62.5 GiB seen by the newer runtime"],
    ),
    (
        "B58",
        "gtt-insufficient",
        &["Insufficient GTT memory", "only 15.5 GB seen"],
    ),
    (
        "B59",
        "oom-with-memory-free",
        &[
            "OOM while loading 4-bit Qwen3-Next with 33 GiB free",
            "HIP out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 95.80 GiB of which 33.10 GiB is free.",
        ],
    ),
    (
        "B60",
        "free-memory-wrong",
        &[
            "free VRAM reported near total whatever else is loaded; overflow goes to host RAM without an error",
        ],
    ),
    (
        "B61",
        "free-memory-wrong",
        &["free VRAM over-reported by GiB when a desktop or Vulkan app holds memory"],
    ),
    (
        "B62",
        "memory-cap-of-unsloth",
        &["Strix Halo: cap of 80 % hard coded"],
    ),
    (
        "B63",
        "expandable-segments-unsupported",
        &[
            "UserWarning: expandable_segments not supported on this platform (Triggered internally at /pytorch/c10/hip/HIPAllocatorConfig.h:29.)",
        ],
    ),
    (
        "B63",
        "expandable-segments-with-split",
        &[
            "export PYTORCH_HIP_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128",
            "with max_split_size_mb at the same time reserved memory grows until full",
        ],
    ),
    (
        "B64",
        "sdpa-no-kernel",
        &[
            "No available kernel. Aborting execution.",
            "RuntimeError: No available kernel. Aborting execution.",
        ],
    ),
    (
        "B64",
        "sdpa-experimental",
        &[
            "Flash attention support on Navi31 GPU is still experimental",
            "UserWarning: Mem Efficient attention on Current AMD GPU is still experimental. Enable it with TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1.",
            "UserWarning: Flash Efficient attention on Current AMD GPU is still experimental. Enable it with TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1.",
            "UserWarning: Memory efficient attention on Navi32 GPU is still experimental.",
        ],
    ),
    (
        "B65",
        "aotriton-nan",
        &["NaN from AOTriton on real activations, not on random ones"],
    ),
    (
        "B66",
        "hipblaslt-fallback",
        &[
            "Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas",
            "UserWarning: Attempting to use hipBLASLt on a unsupported architecture! Overriding blas backend to hipblas (Triggered internally at Context.cpp:296.)",
        ],
    ),
    (
        "B67",
        "hipblaslt-wrong-values",
        &["a tall fp32 matmul returns 93 % zeros, no error"],
    ),
    (
        "B68",
        "hipblaslt-wrong-values",
        &["fp32 GEMM wrong above 2^19 rows on both BLAS paths"],
    ),
    (
        "B69",
        "gemma3-nan",
        &[
            "Gemma 3 NaN on RDNA",
            "[debug] google/gemma-3-4b-it layer 1 output: NaN on gfx1151",
        ],
    ),
    (
        "B70",
        "training-nan",
        &["BERT fine-tune goes NaN after thousands of steps"],
    ),
    (
        "B71",
        "index-out-of-range",
        &[
            "out-of-range index in an embedding hangs the GPU",
            "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1255: indexSelectSmallIndex: block: [3,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
            "IndexError: index out of range in self",
        ],
    ),
    (
        "B72",
        "adapter-unchanged",
        &["LoRA trained, perplexity unchanged"],
    ),
    (
        "B73",
        "prompt-completion-mismatch",
        &[
            "Mismatch between tokenized prompt and the start of tokenized prompt+completion",
            "UserWarning: Mismatch between tokenized prompt and the start of tokenized prompt+completion. This may be due to unexpected tokenizer behavior",
        ],
    ),
    (
        "B74",
        "gemma4-shared-cache-loss",
        &[
            "loss ~10–16 with `use_cache=False` (6.84 against 16.17 on one text)",
            "model google/gemma-4-E4B-it\n`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.\n{'loss': 14.2311, 'grad_norm': 9.1}",
        ],
    ),
    (
        "B75",
        "accumulation-scaling",
        &["loss/gradient grow with accumulation steps when a model ignores `num_items_in_batch`"],
    ),
    (
        "B76",
        "all-labels-masked",
        &[
            "All labels in your dataset are -100. Training losses will be all 0.",
            "ZeroDivisionError: Unsloth: All labels in your dataset are -100. Training losses will be all 0.",
        ],
    ),
    (
        "B77",
        "no-generation-marker",
        &[
            "assistant-only loss with a template that lacks the generation marker masks everything",
            "return_assistant_tokens_mask==True but chat template does not contain `{% generation %}` keyword.",
        ],
    ),
    (
        "B78",
        "token-type-ids",
        &[
            "token_type_ids is required as a model input when training",
            "ValueError: `token_type_ids` is required as a model input when training",
        ],
    ),
    (
        "B79",
        "never-stops",
        &["model never stops because pad = eos and eos is masked"],
    ),
    (
        "B80",
        "dead-adapters",
        &[
            "36 modules of Gemma 4 E4B never get a gradient",
            "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        ],
    ),
    (
        "B81",
        "training-nan",
        &[
            "grad norm NaN at step 11",
            "{'loss': 1.2034, 'grad_norm': nan, 'learning_rate': 0.0002}",
            "step 41 loss=nan grad_norm=nan",
            "{'loss': '0.9', 'grad_norm': 'nan'}",
        ],
    ),
    (
        "B82",
        "slower-and-larger-with-time",
        &["VRAM and step time jump after ~100 steps"],
    ),
    (
        "B86",
        "no-generation-marker",
        &["no generation marker, so assistant-only loss is refused, TRL 0.19"],
    ),
    (
        "B86",
        "template-rewrites-turns",
        &[
            "past thinking blocks are stripped, so a longer conversation does not start with the tokens of the shorter one",
            "user tokens trained, a few assistant tokens off",
        ],
    ),
    (
        "B86",
        "prompt-completion-mismatch",
        &["prompt/completion mismatch warning"],
    ),
    (
        "3.7",
        "ck-unsupported",
        &[
            "CK on an unsupported architecture",
            "[W] Composable Kernel: gfx1100 is an unsupported architecture",
        ],
    ),
    (
        "3.7",
        "torchao-cutlass",
        &[
            "torchao CUTLASS load failures",
            "WARNING:torchao:Failed to load /venv/lib/python3.12/site-packages/torchao/_C_cutlass_90a.abi3.so",
        ],
    ),
    ("3.7", "wsl-no-pci", &["`lspci` empty and no `/dev/dri` in WSL"]),
    (
        "B12",
        "amdgpu-ids-missing",
        &[
            "amdgpu.ids: No such file or directory",
            "/opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory",
        ],
    ),
    (
        "setup 7.1",
        "cuda-torch-on-amd",
        &["torch.version.hip None on AMD", "torch.version.hip: None"],
    ),
    ("setup 7.2", "no-gpu-visible", &["No HIP GPUs are available"]),
    ("setup 7.5", "no-kernels-for-card", &["hipErrorNoBinaryForGpu"]),
    (
        "setup 7.6",
        "override-invalid-isa",
        &[
            "HSA_STATUS_ERROR_INVALID_ISA (0x100f)",
            "Aborting with error : HSA_STATUS_ERROR_INVALID_ISA: The instruction set architecture is invalid. code: 0x100f",
        ],
    ),
    (
        "setup 7.7",
        "segfault-at-hip-start",
        &["SIGSEGV (139) at import or `is_available()`"],
    ),
    (
        "setup 7.10",
        "aotriton-mismatch",
        &[
            "hipErrorInvalidValue some steps after SDPA",
            "    attn = F.scaled_dot_product_attention(q, k, v)\nRuntimeError: CUDA error: invalid argument",
        ],
    ),
    (
        "setup 7.11",
        "sdpa-experimental",
        &["Flash/Efficient attention on Current AMD GPU is still experimental"],
    ),
    (
        "setup 7.12",
        "sdpa-experimental",
        &["training slow, attention memory quadratic, no message"],
    ),
    (
        "setup 7.15",
        "expandable-segments-with-split",
        &["values become zero, loss jumps, no error"],
    ),
    (
        "setup 7.16",
        "expandable-segments-with-split",
        &["reserved memory grows to 100 %"],
    ),
    (
        "setup 7.17",
        "hipblaslt-wrong-values",
        &["part of a matmul is zero on RX 9070"],
    ),
    ("setup 7.18", "gfx12-hang", &["GPU hang / stall on gfx12"]),
    (
        "setup 7.20",
        "rdna1-buffer-ops",
        &["outputs unchanged / −inf on RX 5000 with Triton"],
    ),
    (
        "setup 7.21",
        "steam-deck-gradients",
        &["negative or NaN loss on Steam Deck"],
    ),
    ("setup 7.22", "bnb-four-bit-wrong", &["4-bit NaN"]),
    (
        "setup 7.23",
        "bnb-four-bit-wrong",
        &["4-bit finite but wrong on 7900"],
    ),
    (
        "setup 7.24",
        "bnb-no-rocm-library",
        &[
            "ROCm VERSION MISMATCH",
            "Configured ROCm binary not found at libbitsandbytes_rocm100.so",
        ],
    ),
    (
        "setup 7.25",
        "bnb-processor-only",
        &["Method 'quantize_4bit' not available in CPU-only version of bitsandbytes."],
    ),
    (
        "setup 7.26",
        "bnb-leftover-folder",
        &["`bitsandbytes.__file__` is None"],
    ),
    ("setup 7.27", "two-tritons", &["\"0 active drivers\""]),
    (
        "setup 7.28",
        "rocm-placeholder-packages",
        &[
            "No matching distribution found for triton-rocm",
            "ERROR: No matching distribution found for pytorch-triton-rocm==3.5.1",
            "ERROR: No matching distribution found for rocm[libraries]==10.0.0",
        ],
    ),
    (
        "setup 7.29",
        "pip-memoryview-too-large",
        &["ValueError: Memoryview is too large"],
    ),
    (
        "setup 7.30",
        "rocm-metadata-recursion",
        &["maximum recursion depth exceeded"],
    ),
    (
        "setup 7.31",
        "windows-dll-init",
        &[
            "OSError: [WinError 1114] A dynamic link library (DLL) initialization routine failed. Error loading \"C:\\venv\\torch\\lib\\c10.dll\" or one of its dependencies.",
        ],
    ),
    (
        "setup 7.32",
        "windows-smart-app-control",
        &["Smart App Control blocked a file that may be unsafe"],
    ),
    (
        "setup 7.34",
        "windows-accelerate-distributed",
        &["AttributeError: module 'torch.distributed' has no attribute 'ReduceOp'"],
    ),
    ("setup 7.36", "gtt-insufficient", &["only 15.5 GB on Strix Halo"]),
    (
        "setup 7.37",
        "strix-synchronize-hang",
        &["`synchronize()` hangs, GPU 100 % on Strix"],
    ),
    (
        "setup 7.38",
        "machine-freezes-when-full",
        &["machine freezes when memory is full"],
    ),
    (
        "setup 7.39",
        "page-allocation-failure",
        &[
            "page allocation failure: order:0",
            "python3: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO)",
        ],
    ),
    (
        "setup 7.43",
        "tch-version",
        &["this tch version expects PyTorch 2.13.0, got 2.11.0, this check can be bypassed"],
    ),
    (
        "setup 7.44",
        "gpu-library-not-loaded",
        &["Cannot query cuDNN version without ATen_cuda library"],
    ),
    (
        "setup 7.45",
        "torch-library-missing",
        &[
            "error while loading shared libraries: libtorch_cpu.so: cannot open shared object file: No such file or directory",
            "./engine: undefined symbol: _ZN2at4_ops5zeros4callEN3c108ArrayRef",
        ],
    ),
    (
        "setup 7.46",
        "loss-far-too-high",
        &[
            "first loss ≈ 102 or ≈ 14, or ×8",
            "{'loss': 102.4412, 'grad_norm': 880.1}",
        ],
    ),
    (
        "setup 7.47",
        "dead-adapters",
        &["LoRA grads all zero on some modules"],
    ),
    ("setup 7.48", "training-nan", &["loss became NaN"]),
    (
        "setup 7.49",
        "cuda-no-kernel-image",
        &[
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "no kernel image is available",
        ],
    ),
    (
        "setup 7.50",
        "collectives-hang",
        &["dist.barrier hangs with 2 cards"],
    ),
    (
        "setup 7.51",
        "no-gpu-visible",
        &["torch sees 0 GPUs after user installed ROCm"],
    ),
    (
        "setup 7.53",
        "triton-num-warps",
        &[
            "Triton assertion about num_warps / LinearLayout",
            "python: LinearLayout.cpp:512: Assertion `isSurjective()' failed.",
        ],
    ),
    (
        "setup 7.54",
        "stale-kernel-caches",
        &["stale/odd kernels after an update"],
    ),
];
