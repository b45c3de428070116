#include "device/stream.hpp"

#include <list>

#include "device/backend.hpp"

namespace troupe::device {

bool event::is_over() const { return native_ == nullptr || backend_of(device_).is_over(native_.get()); }

void event::finish() const {
  if (native_ != nullptr) backend_of(device_).finish_event(native_.get());
}

int64_t event::ns_since(const event& earlier) const {
  if (native_ == nullptr || earlier.native_ == nullptr) return 0;
  return backend_of(device_).elapsed_ns(earlier.native_.get(), native_.get());
}

stream::stream(device_id device) : native_(backend_of(device).make_stream(device.index)), device_(device) {}

namespace {

struct thread_stream {  // a thread's own stream of one device, and the stream that it uses now
  explicit thread_stream(device_id device) : own(device) {}
  stream own;
  stream* current = &own;
  bool is_torchs = false;  // true: `own` has been made the current stream of Torch on this thread
};

thread_stream& stream_of_thread(device_id device) {
  // A list, because callers keep references to its entries, which stay valid when others are added
  thread_local std::list<thread_stream> mine;
  for (auto& s : mine)
    if (s.own.device() == device) return s;
  return mine.emplace_back(device);
}

}  // namespace

stream& stream::current(device_id device) {
  thread_stream& mine = stream_of_thread(device);
  // If a current_stream object is active, it has set Torch's stream, and its destructor restores the previous stream.
  if (mine.current == &mine.own && !mine.is_torchs) {
    backend_of(device).make_current(mine.own.native());
    mine.is_torchs = true;
  }
  return *mine.current;
}

current_stream::current_stream(stream& s)
    : place_(stream_of_thread(s.device()).current),
      before_(place_),
      torch_before_(backend_of(s.device()).make_current(s.native())) {
  place_ = &s;
}

current_stream::~current_stream() {
  backend_of(place_->device()).make_current(torch_before_);
  place_ = before_;
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

core::result<void> stream::finish() { return backend_of(device_).finish(native_.get()); }

}  // namespace troupe::device
