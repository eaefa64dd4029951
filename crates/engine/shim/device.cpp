// A GPU's own clock, by c10's generic events, which are the same for CUDA and HIP. Not yet run on ROCm. No exception
// leaves this file: a negative number says "cannot tell".

#include <memory>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace {

struct Timer {
  c10::Event began;
  c10::Event ended;
};

// One operation is timed at a time.
std::unique_ptr<Timer> timer;

c10::Stream stream_of(int gpu) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return guard.getStream(c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(gpu)));
}

}  // namespace

extern "C" {

// 0 where the clock runs now.
int tunesmith_timer_start(int gpu) {
  try {
    constexpr auto flag = c10::EventFlag::BACKEND_DEFAULT;  // with times
    timer.reset(new Timer{c10::Event(c10::DeviceType::CUDA, flag), c10::Event(c10::DeviceType::CUDA, flag)});
    timer->began.record(stream_of(gpu));
    return 0;
  } catch (...) {
    timer.reset();
    return -1;
  }
}

// Seconds since the start, after having waited for the device.
double tunesmith_timer_stop(int gpu) {
  try {
    if (timer == nullptr) {
      return -1;
    }
    timer->ended.record(stream_of(gpu));
    timer->ended.synchronize();
    const double secs = timer->began.elapsedTime(timer->ended) / 1000.0;
    timer.reset();
    return secs;
  } catch (...) {
    timer.reset();
    return -1;
  }
}
}
