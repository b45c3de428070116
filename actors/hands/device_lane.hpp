// Decorates the executor of a lane so that it uses a stream of a device, whose work continues after `start` returns.
// Owns the order between lanes on the device, the end of a run's work, and the times of instructions; the plan defines
// the dependencies.
//
// An event follows the work of each instruction of the compute and shard lanes (step_context::work). A lane that starts
// work on the device lets its stream wait for the events of the instructions that it depends on. A lane that works on
// the CPU (fabric, io, writer, and the shard lane if states are in host memory) blocks its thread until these events,
// before it accesses any data; its work is complete when an instruction ends, and has no event. If the job's device is
// the CPU, no executor is decorated.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "actors/executor.hpp"
#include "actors/hands/device_room.hpp"
#include "device/stream.hpp"

namespace troupe::actors {

/// How the executor of a lane uses the device.
enum class device_use : uint8_t {
  /// The executor's `start` enqueues work on the device and returns: compute lane; shard lane, if states are on the
  /// device.
  asks,
  /// The executor works on the host, then enqueues copies to the device: shard lane, if states are on the host.
  copies,
  none  ///< the executor works on the host: fabric, io, writer lanes; the work is complete when the instruction ends
};
device_use use_of(plan::lane lane, const plan::tier_options& tiers);

/// A wait of a lane for instruction `on`, which instruction `x` depends on, as tests see it. `on_host`: the host waits,
/// not the stream.
struct placed_wait {
  const plan::instruction& x;
  const plan::instruction& on;
  bool on_host;
};
/// For tests: sets a function that is called before every wait of any lane in the process, on that lane's thread; if it
/// returns true, the lane does not wait. Null: no wait is left out. Call while no session is open.
void watch_waits(bool (*leaves_out)(const placed_wait& x));

class device_lane final : public executor {
 public:
  /// Decorates `hands`, the executor of a lane, which uses `device` as `use` says. `room` words the error for exhausted
  /// device memory; `ledger_owner` is the number under which actors/memory/ledger.hpp counts what Torch allocates.
  device_lane(std::unique_ptr<executor> hands, device::device_id device, device_use use,
              std::shared_ptr<const device_room> room, uint32_t ledger_owner)
      : hands_(std::move(hands)), device_(device), use_(use), room_(std::move(room)), ledger_owner_(ledger_owner) {}
  /// Waits until the stream has finished the work that a run which was given up may have left in it.
  ~device_lane() override;
  device_lane(const device_lane&) = delete;
  device_lane& operator=(const device_lane&) = delete;

  void attach(timer t) override { hands_->attach(std::move(t)); }
  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override { return hands_->advance(sequence); }
  core::result<void> settle() override;
  void abort(const core::error& why) override { hands_->abort(why); }

 private:
  /// Calls `work`, which calls the decorated executor, and turns an exception of Torch into an error: exhausted device
  /// memory, a lost device, or the first line of Torch's message.
  template <class Work>
  auto guarded(Work work) -> decltype(work());
  /// Waits, on the stream or on the host, for instruction `on`, which `x` depends on. Returns true if the host waited.
  bool wait(const plan::instruction& x, const plan::instruction& on);
  void tell_times() const;

  std::unique_ptr<executor> hands_;
  device::device_id device_;
  device_use use_;
  std::shared_ptr<const device_room> room_;
  uint32_t ledger_owner_;
  std::optional<device::stream> stream_;  // stream of the lane's thread
  std::shared_ptr<step_context> context_;
  // [lane]: number of instructions, from the first in that lane's order on, for whose work this lane has waited in the
  // current run.
  std::array<uint32_t, plan::num_lanes> awaited_{};
  // Events that record the end of each instruction of a run; reused in the next run.
  std::vector<device::event> events_;
  std::vector<uint32_t> done_;  // ids of this run's instructions whose end `events_` records, in the same order
  device::event begun_;         // event recorded at the begin of a run, when the stream was empty
  int64_t begun_ns_ = 0;        // host time at which `begun_` was recorded
};

}  // namespace troupe::actors
