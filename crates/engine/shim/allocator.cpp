// What tch lacks: how many bytes of tensors are held, and the most that were held.
//
// On the CPU, c10 keeps no such statistics, so its allocator is wrapped. For a GPU, c10's device allocator has
// the same interface for CUDA and HIP. No exception leaves this file: a negative number says "cannot tell".

#include <atomic>
#include <cstdint>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace {

std::atomic<int64_t> held_bytes{0};
std::atomic<int64_t> peak_bytes{0};

// The wrapped allocator's own data pointer, with the size that its deleter does not know.
struct Block {
  c10::DataPtr inner;
  int64_t bytes;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  held_bytes.fetch_sub(block->bytes, std::memory_order_relaxed);
  delete block;
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr inner = inner_->allocate(bytes);
    void* data = inner.get();
    auto device = inner.device();
    auto* block = new Block{std::move(inner), static_cast<int64_t>(bytes)};
    int64_t now = held_bytes.fetch_add(block->bytes, std::memory_order_relaxed) + block->bytes;
    int64_t peak = peak_bytes.load(std::memory_order_relaxed);
    while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
    return c10::DataPtr(data, block, &release, device);
  }

  // Blocks of this allocator have a context of their own, so raw_allocate is not offered.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }

 private:
  c10::Allocator* inner_;
};

c10::DeviceAllocator* gpu_allocator() {
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
}

constexpr size_t kAggregate = 0;  // index of the sum over pools in a StatArray

}  // namespace

extern "C" {

// Wraps c10's CPU allocator; call once, before the first tensor.
int tunesmith_count_cpu_memory() {
  try {
    c10::SetCPUAllocator(new CountingAllocator(c10::GetDefaultCPUAllocator()), /*priority=*/100);
    return 0;
  } catch (...) {
    return -1;
  }
}

// Most bytes held since the last reset; `gpu` is a device index, or -1 for the CPU.
int64_t tunesmith_peak_bytes(int gpu) {
  try {
    if (gpu < 0) {
      return peak_bytes.load(std::memory_order_relaxed);
    }
    auto* allocator = gpu_allocator();
    if (allocator == nullptr || !allocator->initialized()) {
      return -1;
    }
    return allocator->getDeviceStats(static_cast<c10::DeviceIndex>(gpu)).allocated_bytes[kAggregate].peak;
  } catch (...) {
    return -1;
  }
}

void tunesmith_reset_peak(int gpu) {
  try {
    if (gpu < 0) {
      peak_bytes.store(held_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
      return;
    }
    auto* allocator = gpu_allocator();
    if (allocator != nullptr && allocator->initialized()) {
      allocator->resetPeakStats(static_cast<c10::DeviceIndex>(gpu));
    }
  } catch (...) {
  }
}
}
