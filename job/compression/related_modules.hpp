// Modules that go with one that is pruned: which of those that a group's `related_modules` finds is whose. Owns the
// pairing; what is cut out of them is job/compression/clean.hpp's.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "job/compression/pruning.hpp"

namespace troupe::job {

/// Where a module that goes with another may stand.
enum class pairing_reach : uint8_t {
  unit,   ///< beside it: blocks of a family are alike
  model,  ///< a host's units may be single modules
};

/// The modules of a model that were chosen for pruning, with those that go with them. A pattern is compared with the
/// model's layers once, however many modules are asked for.
class module_pairs {
 public:
  /// `table` outlives this.
  module_pairs(std::span<const pruned_module> chosen, const core::model_table& table);

  /// Of `m`, one of those chosen, by the patterns of its group `g`: those in its unit, else of the whole model. Where a
  /// pattern finds as many modules as are pruned they are paired in order, one of these has all that are found. Refused
  /// (bad_input), with file, line and key: a pattern that finds none, and one by which it is not clear whose they are.
  core::result<std::vector<const core::layer_info*>> related(const pruned_module& m, const config::pruned_group& g,
                                                             pairing_reach reach);
  /// How many patterns have been compared so far.
  [[nodiscard]] size_t patterns_read() const { return patterns_read_; }

 private:
  const core::result<std::vector<const core::layer_info*>>& found(const std::string& pattern);

  const core::model_table& table_;
  std::set<std::tuple<pruned_part, std::string, uint32_t, std::string>> chosen_;
  std::map<std::string, core::result<std::vector<const core::layer_info*>>> found_;
  size_t patterns_read_ = 0;
};

/// "compression_training.row_pruning.different_groups.mlp.related_modules"
std::string related_key(const pruned_module& m);

}  // namespace troupe::job
