// Executes the instructions of the I/O lane: moves states, slices of parameters, gradients and activations between
// windows (memory reserved by the plan) and the rank's swap file, many at a time. Owns the port to that file; the plan
// defines offsets, storage/ computes digests and retries.
//
// A write of states on which no instruction of its step depends may still run when the step ends: its instruction ends
// when the port has accepted the write. A later swap of the same bytes of the file or of the same window waits in this
// class until the write is finished; all other code that reads the file must first call rank_memory::settle_writes().
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

/// Bytes [window, window + range.bytes) of a swap's window, and their range in the swap file.
struct swap_move {
  plan::file_range range;
  uint64_t window = 0;
  bool operator==(const swap_move&) const = default;
};

/// Returns the byte ranges that swap instruction `x` moves between its window and the swap file. If states have two
/// places in that file, `place` (0 or 1) is the one that is valid when the step begins. Pure.
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
  struct transfer {  ///< one swap: it is running, or waits for earlier writes
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
  /// [plan as lanes execute it][place of the valid states, 0 or 1]: byte ranges that each swap of the plan moves;
  /// stored for the plans in use and for the plan of the last run
  std::map<std::shared_ptr<const program>, std::array<plan_moves, 2>> moves_;
  const std::array<plan_moves, 2>* last_ = nullptr;  // element of `moves_` for the last run's plan
  const plan_moves* current_ = nullptr;
  std::unique_ptr<swap_port> port_;
  std::vector<storage::swap_completion> completed_;
  std::deque<storage::swap_completion> ended_;  // completed swaps that the lane has not reported yet
  std::vector<transfer> late_;                  // running writes whose instructions have ended
  std::vector<transfer> held_;                  // transfers that wait until some of `late_` are finished
  std::optional<core::error> late_failure_;
};

}  // namespace troupe::actors
