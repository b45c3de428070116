// Pairs each pruned module with the modules that have to shrink with it. The key `related_modules` of the module's
// group names candidates. job/compression/clean.hpp decides what is removed from them.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "job/compression/pruning.hpp"

namespace troupe::job {

/// Part of a model in which related modules of a pruned module are searched.
enum class pairing_reach : uint8_t {
  unit,   ///< only the unit of the pruned module, for models of a family, whose blocks are alike
  model,  ///< the whole model, for a host's own modules, each of which may be a unit
};

/// The modules of a model that were chosen for pruning, with their related modules. Each pattern is compared with the
/// model's layers once, however many modules are queried.
class module_pairs {
 public:
  /// `table` must outlive this object.
  module_pairs(std::span<const pruned_module> chosen, const core::model_table& table);

  /// Returns the related modules of `m`, one of the chosen modules, by the patterns of its group `g`: those in its
  /// unit; if there are none and `reach` is `model`, those of the whole model. If a pattern matches as many modules as
  /// are pruned, they are paired in order; a single pruned module has all matches. Refused (bad_input), with file, line
  /// and key: a pattern that matches nothing, and one whose matches cannot be assigned.
  core::result<std::vector<const core::layer_info*>> related(const pruned_module& m, const config::pruned_group& g,
                                                             pairing_reach reach);

 private:
  const core::result<std::vector<const core::layer_info*>>& found(const std::string& pattern);

  const core::model_table& table_;
  std::set<std::tuple<pruned_part, std::string, uint32_t, std::string>> chosen_;
  std::map<std::string, core::result<std::vector<const core::layer_info*>>> found_;
};

/// Returns a key such as "compression_training.row_pruning.different_groups.mlp.related_modules".
std::string related_key(const pruned_module& m);

}  // namespace troupe::job
