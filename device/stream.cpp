#include "device/stream.hpp"

#include <list>

#include "device/backend.hpp"

namespace troupe::device {

bool event::is_over() const { return native_ == nullptr || backend_of(device_).is_over(native_.get()); }

void event::finish() const {
  if (native_ != nullptr) backend_of(device_).finish_event(native_.get());
}

stream::stream(device_id device) : native_(backend_of(device).make_stream(device.index)), device_(device) {}

stream& stream::current(device_id device) {
  thread_local std::list<stream> mine;  // one for each device; their addresses stay
  for (auto& s : mine)
    if (s.device_ == device) return s;
  return mine.emplace_back(device);
}

void stream::copy(std::byte* to, const std::byte* from, uint64_t bytes) {
  backend_of(device_).copy(native_.get(), to, from, bytes);
}

void stream::record(event& at) {
  at.device_ = device_;
  backend_of(device_).record(native_.get(), at.native_);
}

void stream::wait(const event& at) {
  if (at.native_ != nullptr) backend_of(device_).wait(native_.get(), at.native_.get());
}

void stream::finish() { backend_of(device_).finish(native_.get()); }

}  // namespace troupe::device
