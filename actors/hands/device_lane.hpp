// Makes a lane a stream of a device whose work goes on after `start` returns: a decorator of executors. Owns the order
// between lanes there, the end of a run's work, and the times of instructions; the plan says what comes after what.
//
// Behind the work of each instruction of the compute and shard lanes lies an event (step_context::work). A lane that
// asks the device for work lets its stream wait for the events of what an instruction comes after; a lane of the host
// (fabric, io, writer, and the shard lane where the host updates) waits itself, before it touches anything. What the
// latter do is over when they end, and has no event. On the CPU no executor is decorated.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "actors/executor.hpp"
#include "actors/hands/device_room.hpp"
#include "device/stream.hpp"

namespace troupe::actors {

/// How the hands of a lane use the device.
enum class device_use : uint8_t {
  asks,    ///< `start` asks for work and returns: compute; shard, where states lie on the device
  copies,  ///< works on the host and asks for copies behind that: shard, where states lie on the host
  none     ///< works on the host: fabric, io, writer; what it asks for is over when it ends
};
device_use use_of(plan::lane lane, const plan::tier_options& tiers);

/// A wait that device_lane places, for tests: `x` comes after `on`, and the host waits, or the stream.
struct placed_wait {
  const plan::instruction& x;
  const plan::instruction& on;
  bool on_host;
};
/// For tests: asked at every wait of the process, from the threads of lanes; true leaves the wait out. Null: none is
/// left out. Set while no session is open.
void watch_waits(bool (*leaves_out)(const placed_wait& x));

class device_lane final : public executor {
 public:
  /// `use` is that of the lane whose hands these are.
  device_lane(std::unique_ptr<executor> hands, device::device_id device, device_use use,
              std::shared_ptr<const device_room> room)
      : hands_(std::move(hands)), device_(device), use_(use), room_(std::move(room)) {}
  /// Waits for what a run that was given up has left in the stream.
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
  /// Torch's report that the device's memory is spent becomes an error.
  core::result<progress> start_hands(const plan::instruction& x);
  /// Whether the host has waited.
  bool wait(const plan::instruction& x, const plan::instruction& on);
  void tell_times() const;

  std::unique_ptr<executor> hands_;
  device::device_id device_;
  device_use use_;
  std::shared_ptr<const device_room> room_;
  std::optional<device::stream> stream_;  // the lane's thread's
  std::shared_ptr<step_context> context_;
  std::array<uint32_t, plan::num_lanes> heard_{};  // [lane]: the first instruction that was not waited for, by position
  std::vector<device::event> events_;              // [instruction of a run]: used again in the next one
  std::vector<uint32_t> done_;                     // ids of this run, whose events these are
  device::event begun_;                            // when the stream was empty
  int64_t begun_ns_ = 0;                           // of the host
};

}  // namespace troupe::actors
