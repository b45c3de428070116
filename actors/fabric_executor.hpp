// The collective actor's hands: turns fabric instructions into requests of a communicator. Blocks no thread.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "actors/executor.hpp"
#include "actors/rank_memory.hpp"
#include "fabric/communicator.hpp"

namespace troupe::actors {

class fabric_executor final : public executor {
 public:
  /// `memory` belongs to this rank; `all` keeps every rank's memory alive while a peer may read it.
  fabric_executor(std::shared_ptr<fabric::communicator> communicator, std::shared_ptr<rank_memory> memory,
                  std::vector<std::shared_ptr<rank_memory>> all)
      : communicator_(std::move(communicator)), memory_(std::move(memory)), all_(std::move(all)) {}

  void begin(std::shared_ptr<step_context> context) override;
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t sequence) override;
  void abort(const core::error& why) override { communicator_->abort(why); }

 private:
  using piece_lists = std::vector<std::vector<fabric::piece>>;  // [collective]

  /// Where the bytes of an instruction lie and what is done to them; for simulation only the last differs.
  fabric::request request_for(const plan::instruction& x) const;

  std::shared_ptr<fabric::communicator> communicator_;
  std::shared_ptr<rank_memory> memory_;
  std::vector<std::shared_ptr<rank_memory>> all_;
  std::shared_ptr<step_context> context_;
  std::map<const program*, piece_lists> pieces_of_;  // one entry per plan of the rank
  const piece_lists* pieces_ = nullptr;
};

/// What each collective of a plan moves, in order of sequence.
std::vector<std::vector<fabric::piece>> pieces_of(const plan::step_plan& p);

}  // namespace troupe::actors
