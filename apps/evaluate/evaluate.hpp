// Runs `troupe evaluate`: for troupe-train, which loads LibTorch.
#pragma once

#include "apps/evaluate/evaluate_command.hpp"

namespace troupe::apps {

/// Executes the command and returns its exit code: 0 done; 1 failed, or a loss that is not finite; 2 the arguments, the
/// checkpoint, the text or the questions are refused; 130, 143 interrupted.
int run_evaluation(const evaluate_command& command);

}  // namespace troupe::apps
