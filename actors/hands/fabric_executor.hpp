// Executes the instructions of the fabric lane (collectives and transfers between ranks): turns each into a request to
// a communicator, which moves the bytes. Never blocks its thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/executor.hpp"
#include "actors/memberships.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/step_context.hpp"
#include "job/step/collective_form.hpp"

namespace troupe::actors {

/// Aborts every communicator that `all` has a membership of; `why` is the error that its members receive.
void abort_all(const memberships& all, const core::error& why);

class fabric_executor final : public executor {
 public:
  /// `memory`: that of this rank. `all`: the memory of every rank, which is kept allocated because ranks read each
  /// other's memory.
  fabric_executor(memberships communicators, std::shared_ptr<rank_memory> memory,
                  std::vector<std::shared_ptr<rank_memory>> all)
      : memory_(std::move(memory)), all_(std::move(all)), communicators_(std::move(communicators)) {}

  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t number) override;
  void abort(const core::error& why) override { abort_all(communicators_, why); }

 private:
  fabric::request request_for(const plan::instruction& x) const;

  std::shared_ptr<rank_memory> memory_;
  std::vector<std::shared_ptr<rank_memory>> all_;
  std::shared_ptr<step_context> context_;
  /// Pieces (ranges of memory) of each collective, for each plan of the rank that is in use and for the plan of the
  /// last run, whose pieces another rank may still read. The key owns the program, so that no later program gets its
  /// address.
  std::map<std::shared_ptr<const program>, job::piece_lists> pieces_of_;
  const job::piece_lists* pieces_ = nullptr;
  // Must be the last member, which is destroyed first: another rank may still copy from this rank's memory by
  // `pieces_of_`, and the destructor of a membership waits for such copies.
  memberships communicators_;
};

/// Returns the request of a collective instruction, without this rank's addresses. If the vote has disabled the
/// instruction (its guard), the collective still takes place, but without pieces to move, so that the numbers of a
/// communicator's collectives have no gaps.
fabric::request describe_collective(step_context& context, const plan::instruction& x,
                                    std::span<const fabric::piece> pieces);

/// Returns the id of the pending instruction that executes collective `m`, to which a wake message refers. Returns none
/// if the instruction has ended or the collective belongs to another run: a wake may arrive late, after the post or an
/// earlier wake has completed the collective.
std::optional<uint32_t> pending_collective(const step_context& context, const collective_id& m);

/// Implements executor::start for a collective: posts request `r` for this rank; if all other members have posted
/// theirs, also does this rank's share of the work. Returns `done` if the collective is complete for this rank.
core::result<progress> meet(fabric::communicator& communicator, const fabric::request& r);

/// Implements executor::advance for the collective whose collective_id::number() is `number`. Returns the id of its
/// instruction if it has now ended.
core::result<std::optional<uint32_t>> go_on(const memberships& all, const step_context& context, uint64_t number);

}  // namespace troupe::actors
