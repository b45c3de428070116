// Executes the instructions of the I/O lane: moves states, slices, gradients and activations between windows and the
// rank's swap file, many at a time. Owns the port to that file; the plan defines offsets, storage/ does digests and
// retries.
//
// A write that no instruction of its step waits for may outlive the step: the instruction ends when the port has
// accepted the write. A swap that reads the same bytes of the file, or fills the same window again, waits here until
// the write is finished; other users of the file call rank_memory::settle_writes.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "actors/executor.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/memory/swap_port.hpp"

namespace troupe::actors {

/// Bytes [window, window + range.bytes) of a swap's window and their range in the file.
struct swap_move {
  plan::file_range range;
  uint64_t window = 0;
  bool operator==(const swap_move&) const = default;
};

/// Returns the moves between a window and the swap file that a swap instruction consists of. If states have two places
/// in the file, `place` (0 or 1) is the place with the valid states when the step begins. Pure.
std::vector<swap_move> moves_of(const plan::rank_plan& p, const plan::instruction& x, uint32_t place = 0);

class io_executor final : public executor {
 public:
  /// `open` is called on the lane's thread at the first use of the swap file, and opens the port.
  io_executor(std::shared_ptr<rank_memory> memory, swap_opener open)
      : memory_(std::move(memory)), open_(std::move(open)) {}
  ~io_executor() override;

  void attach(timer t) override { timer_ = std::move(t); }
  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override;
  void abort(const core::error& why) override;

 private:
  struct transfer {  ///< one swap that is running, or held back until others are finished
    uint64_t token = 0;
    bool writes = false, outlives = false;
    const std::vector<swap_move>* moves = nullptr;
    std::byte* window = nullptr;
    uint64_t bytes = 0;  ///< size of `window` in bytes
  };
  core::result<void> look();
  core::result<void> submit(const transfer& t);
  core::result<void> submit_held();
  [[nodiscard]] bool must_wait(const transfer& t) const;
  [[nodiscard]] bool outlives(const plan::instruction& x) const;

  std::shared_ptr<rank_memory> memory_;
  swap_opener open_;
  timer timer_;
  std::shared_ptr<step_context> context_;
  // [instruction id]: moves between the instruction's window and the swap file.
  using plan_moves = std::vector<std::vector<swap_move>>;
  /// [program][place of the valid states]: moves of each plan that is still in use, and of the plan of the last run
  std::map<std::shared_ptr<const program>, std::array<plan_moves, 2>> moves_;
  const std::array<plan_moves, 2>* last_ = nullptr;  // moves of the last run's plan
  const plan_moves* current_ = nullptr;
  std::unique_ptr<swap_port> port_;
  std::vector<storage::swap_completion> completed_;
  std::deque<storage::swap_completion> ended_;  // completed swaps that the lane has not reported yet
  std::vector<transfer> late_;                  // writes that are still running although their instructions have ended
  std::vector<transfer> held_;                  // transfers that wait until some of `late_` are finished
  std::optional<core::error> late_failure_;
};

}  // namespace troupe::actors
