// Which kernels torch's attention may take, and the proof of the one that it took (C4): tch has neither the switches nor
// the names of the steps that a call leaves for the backward pass. No exception leaves this file.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

extern "C" {

// Allows these back ends and no others; a bit each, at the place that torch's SDPBackend gives it: 1 math, 2 flash,
// 4 efficient, 8 cuDNN.
int tunesmith_attention_allow(int backends) {
  try {
    auto& context = at::globalContext();
    context.setSDPUseMath((backends & 1) != 0);
    context.setSDPUseFlash((backends & 2) != 0);
    context.setSDPUseMemEfficient((backends & 4) != 0);
    context.setSDPUseCuDNN((backends & 8) != 0);
    return 0;
  } catch (...) {
    return -1;
  }
}

// Name of the step that made this tensor, as autograd calls it; the length of the name, or -1.
int64_t tunesmith_backward_name(const void* tensor, char* name, int64_t size) {
  try {
    const auto& node = static_cast<const at::Tensor*>(tensor)->grad_fn();
    if (node == nullptr || size < 1) {
      return -1;
    }
    const std::string text = node->name();
    const auto length = std::min<int64_t>(static_cast<int64_t>(text.size()), size);
    std::memcpy(name, text.data(), static_cast<size_t>(length));
    return length;
  } catch (...) {
    return -1;
  }
}
}
