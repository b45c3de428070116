#include "actors/hands/device_lane.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include "actors/memory/ledger.hpp"
#include "core/clock.hpp"

namespace troupe::actors {
namespace {

std::atomic<bool (*)(const placed_wait&)> wait_watcher{nullptr};

/// True if work that the lane's instructions have enqueued may still run on the device when the instructions have
/// ended.
constexpr bool leaves_work(plan::lane l) { return l == plan::lane::compute || l == plan::lane::shard; }

}  // namespace

device_use use_of(plan::lane lane, const plan::tier_options& tiers) {
  if (!leaves_work(lane)) return device_use::none;
  return lane == plan::lane::shard && tiers.updates_on_host() ? device_use::copies : device_use::asks;
}

void watch_waits(bool (*leaves_out)(const placed_wait& x)) { wait_watcher = leaves_out; }

device_lane::~device_lane() {
  if (!stream_) return;
  (void)stream_->finish();
  forget_stream(stream_->native());
}

void device_lane::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  awaited_.fill(0);
  done_.clear();
  if (use_ != device_use::none) {
    stream_ = device::stream::current(device_);
    attribute_stream(stream_->native(), ledger_owner_);
    stream_->record(begun_);
    begun_ns_ = core::now_ns();
  }
  hands_->begin(context_);
}

// Skips a wait that an earlier wait of this lane covers: the compute and the shard lane put their work on one stream
// each, in order, so the end of one instruction's work implies the end of all earlier work of its lane.
bool device_lane::wait(const plan::instruction& x, const plan::instruction& on) {
  if (!leaves_work(on.lane) || (on.lane == x.lane && use_ == device_use::asks)) return false;
  auto& awaited = awaited_[static_cast<size_t>(on.lane)];
  const uint32_t position = context_->program->position[on.id];
  if (position < awaited) return false;
  awaited = position + 1;
  const bool on_host = use_ != device_use::asks;
  if (const auto leaves_out = wait_watcher.load(); leaves_out != nullptr && leaves_out({x, on, on_host})) return false;
  on_host ? context_->work[on.id].finish() : stream_->wait(context_->work[on.id]);
  return on_host;
}

template <class Work>
auto device_lane::guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError& e) {
    return core::fail(room_->spent(e.what_without_backtrace()));
  } catch (const c10::Error& e) {
    TROUPE_TRY(device::stream::current(device_).finish());     // fails if the device is lost
    const std::string_view said = e.what_without_backtrace();  // the first line is the error, further lines are advice
    return core::fail(core::error_kind::io, "LibTorch: " + std::string(said.substr(0, said.find('\n'))));
  }
}

core::result<progress> device_lane::start(const plan::instruction& x) {
  bool waited = false;
  // waits for the last instruction of each lane first, because that wait covers the lane's earlier instructions
  for (const uint32_t on : std::views::reverse(x.after)) waited |= wait(x, context_->plan().instructions[on]);
  if (waited) context_->spans[x.id].start_ns.store(core::now_ns(), std::memory_order_relaxed);
  auto did = guarded([&] { return hands_->start(x); });
  if (!did || use_ == device_use::none) return did;
  if (done_.size() == events_.size()) events_.emplace_back();
  stream_->record(events_[done_.size()]);
  context_->work[x.id] = events_[done_.size()];
  done_.push_back(x.id);
  return did;
}

core::result<void> device_lane::settle() {
  if (use_ != device_use::none) TROUPE_TRY(stream_->finish());
  if (use_ == device_use::asks) tell_times();
  return guarded([&] { return hands_->settle(); });
}

// Replaces the times of the run's instructions by those of their work on the device: the work of an instruction begins
// when it has been enqueued, and the earlier work on the stream and the instruction's dependencies have ended.
void device_lane::tell_times() const {
  const auto end_of = [&](const device::event& at) { return begun_ns_ + at.ns_since(begun_); };
  int64_t before = begun_ns_;
  for (size_t k = 0; k < done_.size(); ++k) {
    auto& span = context_->spans[done_[k]];
    const plan::instruction& x = context_->plan().instructions[done_[k]];
    int64_t begin = std::max(before, span.start_ns.load(std::memory_order_relaxed));
    for (const uint32_t on : x.after)
      if (const plan::lane from = context_->plan().instructions[on].lane; leaves_work(from) && from != x.lane)
        begin = std::max(begin, end_of(context_->work[on]));
    before = std::max(begin, end_of(events_[k]));
    span.start_ns.store(begin, std::memory_order_relaxed);
    span.end_ns.store(before, std::memory_order_relaxed);
  }
}

}  // namespace troupe::actors
