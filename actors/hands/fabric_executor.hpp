// The collective actor's hands: turns fabric instructions into requests of a communicator. Blocks no thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/executor.hpp"
#include "actors/memory/rank_memory.hpp"
#include "fabric/communicator.hpp"

namespace troupe::actors {

class fabric_executor final : public executor {
 public:
  /// `memory` belongs to this rank; `all` keeps every rank's memory alive while a peer may read it.
  fabric_executor(std::shared_ptr<fabric::communicator> communicator, std::shared_ptr<rank_memory> memory,
                  std::vector<std::shared_ptr<rank_memory>> all)
      : memory_(std::move(memory)), all_(std::move(all)), communicator_(std::move(communicator)) {}

  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override;
  void abort(const core::error& why) override { communicator_->abort(why); }

 private:
  using piece_lists = std::vector<std::vector<fabric::piece>>;  // [collective]

  fabric::request request_for(const plan::instruction& x) const;

  std::shared_ptr<rank_memory> memory_;
  std::vector<std::shared_ptr<rank_memory>> all_;
  std::shared_ptr<step_context> context_;
  std::map<const program*, piece_lists> pieces_of_;  // one entry per plan of the rank
  const piece_lists* pieces_ = nullptr;
  // The last member, hence the first to end: a peer's copy under way still reads the memory and the pieces above, and
  // leaving waits for it.
  std::shared_ptr<fabric::communicator> communicator_;
};

/// The pieces of each collective of a plan, in order of sequence.
std::vector<std::vector<fabric::piece>> pieces_of(const plan::rank_plan& p);

/// The request of a collective instruction, without this rank's addresses. A collective whose guard forbids it is still
/// posted, without pieces, so that sequences have no gaps.
fabric::request describe_collective(step_context& context, const plan::instruction& x,
                                    std::span<const fabric::piece> pieces);

/// The instruction that a wake for `sequence` is about; none if it has ended already or is of another run: a wake may
/// be late, when the operation was found done as it was posted, or by an earlier wake.
std::optional<uint32_t> pending_collective(const step_context& context, uint64_t sequence);

/// An executor's `start` of a collective: posts this member's arrival, and does its share if it was the last.
core::result<progress> meet(fabric::communicator& communicator, const fabric::request& r);

/// An executor's `advance` of a collective: the instruction, if it has ended now.
core::result<std::optional<uint32_t>> go_on(fabric::communicator& communicator, const step_context& context,
                                            uint64_t sequence);

}  // namespace troupe::actors
