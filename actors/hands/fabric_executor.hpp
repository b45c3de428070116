// Executes the instructions of the fabric lane: turns them into requests of a communicator. Blocks no thread.
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

/// Aborts all communicators of a fabric executor; `why` is the error that their members receive.
void abort_all(const memberships& all, const core::error& why);

class fabric_executor final : public executor {
 public:
  /// `memory` belongs to this rank; `all` keeps every rank's memory alive while another rank may read it.
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
  /// Pieces of each plan of the rank that is still in use, and of the plan of the last run, which another rank may
  /// still read. The key holds the program, so that no later program has its address.
  std::map<std::shared_ptr<const program>, job::piece_lists> pieces_of_;
  const job::piece_lists* pieces_ = nullptr;
  // Must be the last member, and therefore destroyed first: another rank's copy may still read the memory and the
  // pieces above, and leaving the communicators waits for it.
  memberships communicators_;
};

/// Returns the request of a collective instruction, without this rank's addresses. A collective whose guard does not
/// act still takes place, without pieces, so that sequence numbers have no gaps.
fabric::request describe_collective(step_context& context, const plan::instruction& x,
                                    std::span<const fabric::piece> pieces);

/// Returns the instruction that a wake for `m` refers to; none if it has ended already or belongs to another run. A
/// wake may be late if the operation was already done when it was posted, or an earlier wake has ended it.
std::optional<uint32_t> pending_collective(const step_context& context, const meeting_id& m);

/// Implements an executor's `start` of a collective: posts the collective for this member, and, if all other members
/// have posted it before, also does this member's share of the work.
core::result<progress> meet(fabric::communicator& communicator, const fabric::request& r);

/// Implements executor::advance for the collective operation with this number. Returns the instruction if it has now
/// ended.
core::result<std::optional<uint32_t>> go_on(const memberships& all, const step_context& context, uint64_t number);

}  // namespace troupe::actors
