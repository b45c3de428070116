#include "actors/hands/host_team.hpp"

#include "core/system/float_environment.hpp"

namespace troupe::actors {

host_team::~host_team() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  work_came_.notify_all();
}

void host_team::take_parts(std::unique_lock<std::mutex>& lock) {
  while (next_ < parts_) {
    const uint64_t part = next_++;
    const auto& f = *f_;
    lock.unlock();
    f(part);
    lock.lock();
    if (++ended_ == parts_) work_ended_.notify_all();
  }
}

void host_team::work() {
  core::keep_usual_float_environment();
  std::unique_lock lock(mutex_);
  for (;;) {
    work_came_.wait(lock, [this] { return is_over_ || next_ < parts_; });
    if (is_over_) return;
    take_parts(lock);
  }
}

void host_team::run(uint64_t parts, const std::function<void(uint64_t)>& f) {
  if (parts <= 1 || threads_ <= 1) {
    for (uint64_t part = 0; part < parts; ++part) f(part);
    return;
  }
  while (others_.size() + 1 < threads_) others_.emplace_back([this] { work(); });
  std::unique_lock lock(mutex_);
  f_ = &f;
  parts_ = parts;
  next_ = ended_ = 0;
  work_came_.notify_all();
  take_parts(lock);
  work_ended_.wait(lock, [this] { return ended_ == parts_; });
  parts_ = next_ = 0;
}

}  // namespace troupe::actors
