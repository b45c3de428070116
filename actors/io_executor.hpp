// The I/O worker's hands: moves states, slices and gradients between windows and the rank's swap file, many at a time.
// Owns the queue; what lies where is the plan's, digests and retries are storage/'s.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "actors/executor.hpp"
#include "actors/rank_memory.hpp"
#include "storage/event_watch.hpp"
#include "storage/swap_queue.hpp"

namespace troupe::actors {

/// Bytes [window, window + range.bytes) of a swap's window and where they lie in the file.
struct swap_move {
  plan::file_range range;
  uint64_t window = 0;
  bool operator==(const swap_move&) const = default;
};

/// Pure: what a swap moves, in the order of the file.
std::vector<swap_move> moves_of(const plan::step_plan& p, const plan::instruction& x);

struct io_setup {
  storage::swap_queue_options queue;             ///< without pools: the windows are
  std::shared_ptr<storage::event_watch> watch;   ///< one for all ranks of a process
  std::function<void()> wake;                    ///< from any thread: the lane is to look at its queue
  std::function<void(const std::string&)> warn;  ///< from the lane's thread: what could not be had
};

class io_executor final : public executor {
 public:
  io_executor(std::shared_ptr<rank_memory> memory, io_setup setup)
      : memory_(std::move(memory)), setup_(std::move(setup)) {}
  ~io_executor() override;

  void attach(timer t) override { timer_ = std::move(t); }
  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override;
  void abort(const core::error& why) override;

 private:
  core::result<void> open();
  void look();

  std::shared_ptr<rank_memory> memory_;
  io_setup setup_;
  timer timer_;
  std::shared_ptr<step_context> context_;
  std::map<const program*, std::vector<std::vector<swap_move>>> moves_;  // [instruction]
  const std::vector<std::vector<swap_move>>* current_ = nullptr;
  std::unique_ptr<storage::swap_queue> queue_;
  std::vector<storage::swap_completion> completed_;
  std::deque<storage::swap_completion> ended_;  // not told yet
};

}  // namespace troupe::actors
