// Executes the instructions of the writer lane in a step that saves: copies states into staging slots and hands these
// to the disk. A failed save does not fail the step: training continues.
#pragma once

#include <map>
#include <memory>

#include "actors/executor.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/memory/state_source.hpp"
#include "actors/saving/save_part.hpp"

namespace troupe::actors {

class writer_executor final : public executor {
 public:
  /// `states` must read the states of `memory`.
  writer_executor(std::shared_ptr<rank_memory> memory, std::unique_ptr<const state_source> states)
      : memory_(std::move(memory)), states_(std::move(states)) {}

  void attach(timer t) override { timer_ = std::move(t); }
  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  /// Ends this rank's part of the save once all of its blocks were handed over, possibly after the end of the step.
  /// Blocks until the disk has them. Returns none.
  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override;
  void abort(const core::error& why) override;
  ~writer_executor() override;

 private:
  void copy(const plan::instruction& x);
  void copy_piece(uint32_t block, const plan::saved_piece& piece, std::byte* to);
  void all_handed_over();
  void end_part();

  std::shared_ptr<rank_memory> memory_;
  std::unique_ptr<const state_source> states_;
  std::shared_ptr<step_context> context_;
  timer timer_;
  std::unique_ptr<save_part> part_;  // this rank's part of the save in progress; null: none is in progress
  // True: all blocks of `part_` are handed over, so nothing more is copied for it.
  bool all_handed_over_ = false;
  // [byte offset of a staging slot]: number of the block that was last written from the slot
  std::map<uint64_t, uint32_t> occupied_;
};

/// Returns the kind of state (weights, master weights, a moment) that a saved piece of a parameter contains.
plan::state_part part_of(const plan::saved_piece& x);

}  // namespace troupe::actors
