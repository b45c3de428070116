#include "actors/processes/part_taker.hpp"

#include <utility>
#include <vector>

#include "core/byte_stream.hpp"

namespace troupe::actors {
namespace {

struct part_note {
  uint64_t run = 0;
  std::string part;
};
void fields(auto& f, part_note& x) { f(x.run, x.part); }

}  // namespace

part_taker::part_taker() : thread_([this] { work(); }) {}

part_taker::~part_taker() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    if (!ended_) ended_ = core::error{core::error_kind::stopped, "the session ended"};
  }
  came_.notify_all();
  thread_.join();
}

std::string part_taker::note(uint64_t run, const part_result& part) {
  return core::as_bytes(part_note{run, encode(part)});
}

void part_taker::expect(uint64_t run, const std::shared_ptr<save_job>& save) {
  const std::lock_guard lock(mutex_);
  std::erase_if(saves_, [](const auto& x) { return x.second.expired(); });
  saves_[run] = save;
}

void part_taker::hear(std::string note) {
  {
    const std::lock_guard lock(mutex_);
    notes_.push_back(std::move(note));
  }
  came_.notify_all();
}

void part_taker::give_up(const core::error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) ended_ = why;
  }
  came_.notify_all();
}

void part_taker::take(const std::string& note) {
  const auto x = core::from_bytes<part_note>(note);
  if (!x) return;
  auto part = decode_part_result(x->part);
  std::shared_ptr<save_job> save;
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = saves_.find(x->run); at != saves_.end()) save = at->second.lock();
  }
  if (save != nullptr && part) (void)save->take_part(std::move(*part));
}

void part_taker::abandon_all(const core::error& why) {
  std::vector<std::shared_ptr<save_job>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [run, save] : saves_)
      if (auto known = save.lock()) all.push_back(std::move(known));
    saves_.clear();
  }
  for (const auto& save : all) save->abandon(why);
}

void part_taker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [this] { return !notes_.empty() || ended_; });
    while (!notes_.empty()) {
      const std::string note = std::move(notes_.front());
      notes_.pop_front();
      lock.unlock();
      take(note);
      lock.lock();
    }
    if (!ended_) continue;
    const core::error why = *ended_;
    lock.unlock();
    abandon_all(why);
    lock.lock();
    if (!stops_) came_.wait(lock, [this] { return stops_; });
    return;
  }
}

}  // namespace troupe::actors
