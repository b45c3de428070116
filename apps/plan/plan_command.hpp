// Owns the options of `troupe plan` and calls the functions that run it. Requires LibTorch only for measuring rates,
// through `products`.
#pragma once

#include "apps/base/program_command.hpp"
#include "apps/plan/show_plan.hpp"
#include "core/error.hpp"

namespace troupe::apps {

class plan_command : public program_command {
 public:
  explicit plan_command(CLI::App& app);
  /// True if `run` measures the rate of matrix products, for which the caller must pass a meter that uses LibTorch.
  [[nodiscard]] bool measures() const { return arguments_.measure; }
  /// Runs the command and returns the exit status; `products` may be empty if nothing is measured.
  [[nodiscard]] int run(const job::product_meter& products) const;

 private:
  /// Refuses options that the other options make ineffective.
  [[nodiscard]] core::result<void> check_options() const;

  plan_arguments arguments_;
};

}  // namespace troupe::apps
