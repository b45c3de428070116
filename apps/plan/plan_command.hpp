// `troupe plan` on the command line: its options, and who carries them out. Needs LibTorch only where rates are
// measured, through `products`.
#pragma once

#include "apps/plan/show_plan.hpp"
#include "core/error.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class plan_command {
 public:
  explicit plan_command(CLI::App& app);
  [[nodiscard]] bool chosen() const;
  /// Whether `run` wants a meter of products, which needs LibTorch.
  [[nodiscard]] bool measures() const { return arguments_.measure; }
  /// The exit status; `products` may be empty where nothing is measured.
  [[nodiscard]] int run(const job::product_meter& products) const;

 private:
  /// Refuses options that would do nothing beside the others.
  [[nodiscard]] core::result<void> check_options() const;

  CLI::App* command_ = nullptr;
  plan_arguments arguments_;
};

}  // namespace troupe::apps
