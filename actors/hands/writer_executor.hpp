// The checkpoint writer's hands: copies states into staging slots and hands these to the disk, for as long as a save is
// under way. A save that fails is no failure of the step: training continues.
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
  /// `states` are those of `memory`.
  writer_executor(std::shared_ptr<rank_memory> memory, std::unique_ptr<const state_source> states)
      : memory_(std::move(memory)), states_(std::move(states)) {}

  void attach(timer t) override { timer_ = std::move(t); }
  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  /// All blocks are handed over: what remains is to wait for the disk, after the step's own end.
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
  std::unique_ptr<save_part> part_;        // of the save under way
  bool all_handed_over_ = false;           // of part_: nothing more is copied for it
  std::map<uint64_t, uint32_t> occupied_;  // offset of a slot -> block that was written from it last
};

/// The part of its parameter that a saved piece is.
plan::state_part part_of(const plan::saved_piece& x);

}  // namespace troupe::actors
