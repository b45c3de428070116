// The collective actor's hands: turns fabric instructions into requests of a communicator. Blocks no thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/executor.hpp"
#include "actors/meetings.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/step_context.hpp"
#include "job/collective_form.hpp"

namespace troupe::actors {

/// An executor's `abort`.
void abort_all(const memberships& all, const core::error& why);

class fabric_executor final : public executor {
 public:
  /// `memory` belongs to this rank; `all` keeps every rank's memory alive while a peer may read it.
  fabric_executor(memberships communicators, std::shared_ptr<rank_memory> memory,
                  std::vector<std::shared_ptr<rank_memory>> all)
      : memory_(std::move(memory)), all_(std::move(all)), communicators_(std::move(communicators)) {}

  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t meeting) override;
  void abort(const core::error& why) override { abort_all(communicators_, why); }

 private:
  fabric::request request_for(const plan::instruction& x) const;

  std::shared_ptr<rank_memory> memory_;
  std::vector<std::shared_ptr<rank_memory>> all_;
  std::shared_ptr<step_context> context_;
  /// An entry for each plan of the rank that somebody still has, and for the last run's, which a peer may still read.
  /// Its key keeps the program, so that no later one has its address.
  std::map<std::shared_ptr<const program>, job::piece_lists> pieces_of_;
  const job::piece_lists* pieces_ = nullptr;
  // The last member, hence the first to end: a peer's copy under way still reads the memory and the pieces above, and
  // leaving waits for it.
  memberships communicators_;
};

/// What a collective instruction asks of the fabric, but for this rank's addresses. A collective whose guard says no
/// still meets, without pieces, so that sequences stay without gaps.
fabric::request describe_collective(step_context& context, const plan::instruction& x,
                                    std::span<const fabric::piece> pieces);

/// The instruction that a wake for `m` is about; none if it has ended already or is of another run: a wake may
/// be late, when the operation was found done as it was posted, or by an earlier wake.
std::optional<uint32_t> pending_collective(const step_context& context, const meeting_id& m);

/// An executor's `start` of a collective: posts this member's arrival, and does its share if it was the last.
core::result<progress> meet(fabric::communicator& communicator, const fabric::request& r);

/// An executor's `advance` of the meeting with this number: the instruction, when it has ended now.
core::result<std::optional<uint32_t>> go_on(const memberships& all, const step_context& context, uint64_t number);

}  // namespace troupe::actors
