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

// Stands before each block and keeps its size, which a deleter is not told. A whole cache line, so that the block
// keeps the alignment of the allocator below.
constexpr size_t kHeader = 64;

c10::Allocator* wrapped() {
  return c10::GetDefaultCPUAllocator();
}

void release(void* data) {
  if (data == nullptr) {
    return;
  }
  char* block = static_cast<char*>(data) - kHeader;
  held_bytes.fetch_sub(*reinterpret_cast<int64_t*>(block), std::memory_order_relaxed);
  wrapped()->raw_deallocate(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) {
      return c10::DataPtr(nullptr, nullptr, &release, cpu);
    }
    char* block = static_cast<char*>(wrapped()->raw_allocate(bytes + kHeader));
    *reinterpret_cast<int64_t*>(block) = static_cast<int64_t>(bytes);
    int64_t now = held_bytes.fetch_add(bytes, std::memory_order_relaxed) + static_cast<int64_t>(bytes);
    int64_t peak = peak_bytes.load(std::memory_order_relaxed);
    while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
    // Data and context are one pointer, as raw_allocate demands of every allocator (oneDNN's products use it).
    char* data = block + kHeader;
    return c10::DataPtr(data, data, &release, cpu);
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }

  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }
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
    c10::SetCPUAllocator(new CountingAllocator(), /*priority=*/100);
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

// Bytes that tensors hold now, or with `reserved` what the allocator keeps for them of a GPU's memory.
int64_t tunesmith_held_bytes(int gpu, int reserved) {
  try {
    if (gpu < 0) {
      return held_bytes.load(std::memory_order_relaxed);
    }
    auto* allocator = gpu_allocator();
    if (allocator == nullptr || !allocator->initialized()) {
      return -1;
    }
    const auto stats = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(gpu));
    return (reserved != 0 ? stats.reserved_bytes : stats.allocated_bytes)[kAggregate].current;
  } catch (...) {
    return -1;
  }
}

// Bytes of a GPU's memory that anybody uses, by its driver's account.
int64_t tunesmith_used_bytes(int gpu) {
  try {
    auto* allocator = gpu < 0 ? nullptr : gpu_allocator();
    if (allocator == nullptr || !allocator->initialized()) {
      return -1;
    }
    const auto [free, total] = allocator->getMemoryInfo(static_cast<c10::DeviceIndex>(gpu));
    return static_cast<int64_t>(total) - static_cast<int64_t>(free);
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
