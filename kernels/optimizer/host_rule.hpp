// The update rule of an embedding program's own as one of the optimizers. Owns the conversion of a piece to the flat
// fp32 values that core/shard_optimizer.hpp promises.
#pragma once

#include <memory>

#include "core/shard_optimizer.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

struct host_rule_options {  ///< options of a program's own rule
  std::shared_ptr<const core::shard_optimizer> rule;
  double weight_decay = 0;
};

/// Updates a piece by the rule: widens the gradients to fp32, multiplies them by the step's factor, calls the rule for
/// at most core::shard_span_max elements at a time, and writes `piece.copy`. There is no form for fp64.
void host_rule(const host_rule_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

}  // namespace troupe::kernels
