// The shard owner's hands: square sums of what this rank owns, and the optimizer. The arithmetic is kernels/'s.
#pragma once

#include <memory>

#include "actors/executor.hpp"
#include "actors/rank_memory.hpp"
#include "kernels/optimizer.hpp"

namespace troupe::actors {

class shard_executor final : public executor {
 public:
  shard_executor(std::shared_ptr<rank_memory> memory, kernels::optimizer_options options)
      : memory_(std::move(memory)), options_(options) {}

  void begin(std::shared_ptr<step_context> context) override { context_ = std::move(context); }
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t) override { return std::nullopt; }

 private:
  void square_sums(uint32_t bucket);
  core::result<void> update(const plan::sub_group& group);
  template <class State>
  [[nodiscard]] kernels::optimizer_piece<State> at(const plan::owned_piece& piece) const;

  std::shared_ptr<rank_memory> memory_;
  kernels::optimizer_options options_;
  std::shared_ptr<step_context> context_;
};

/// Pure: the first parameter, in the table's order, with a square sum that is not finite.
std::string first_nonfinite_parameter(const plan::step_plan& p, const std::vector<double>& votes);

}  // namespace troupe::actors
