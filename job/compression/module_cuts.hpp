// Which outputs and inputs of which layers stay when rows, channels or heads are cut out of a model: of the module that
// was pruned and of those that go with it. Owns the places and their refusals; how a parameter lies in memory is
// job/compression/clean.hpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/compression/pruning.hpp"

namespace troupe::job {

/// A module that becomes smaller.
struct cut_module {
  std::string module;
  std::vector<uint64_t> outputs, inputs;  ///< that stay, ascending; empty: all
};

/// Refused (bad_input): a weight that another module than `module` reads, unless `is_alike` accepts that one.
core::result<void> check_not_shared(const core::model_table& table, const std::string& module, uint32_t weight,
                                    const std::function<bool(const core::layer_info&)>& is_alike,
                                    const std::string& where, const std::string& key);

/// The outputs of queries, keys or values, packed or apart, that belong to the heads that stay: of a packed weight head
/// by head inside each of its parts. Empty where its heads are others than `heads`.
std::vector<uint64_t> rows_of_heads(const core::layer_info& l, const kernels::mask_bits& bits, uint64_t heads);

class module_cuts {  ///< grows mask by mask
 public:
  using layers = std::vector<const core::layer_info*>;
  explicit module_cuts(const core::model_table& table) : table_(table) {}

  /// What `bits` keeps of `m` stays of it, and of the related modules that take it, stand beside it or norm it; how
  /// many rows or heads that are. Refused (bad_input), with `where` and `key`: one of another width, of which another
  /// mask keeps other parts, or whose weight others read; elements, which are cut out of nothing; convolutions in
  /// groups; queries, keys and values whose heads are others, or lie nobody knows where.
  core::result<uint64_t> cut(const pruned_module& m, const kernels::mask_bits& bits, const layers& related,
                             const std::string& where, const std::string& key);

  /// By name.
  [[nodiscard]] const std::map<std::string, cut_module>& all() const { return cuts_; }

 private:
  struct place {
    const std::string &where, &key;
  };
  core::result<void> cut_rows(const pruned_module& m, const std::vector<uint64_t>& kept, const layers& related,
                              const place& at);
  core::result<void> cut_heads(const pruned_module& m, const kernels::mask_bits& bits, const layers& related,
                               const place& at);
  core::result<void> keep(const core::layer_info& l, std::vector<uint64_t> cut_module::*side,
                          const std::vector<uint64_t>& kept, const place& at);
  [[nodiscard]] const core::layer_info& layer_of(const pruned_module& m) const;

  const core::model_table& table_;
  std::map<std::string, cut_module> cuts_;
};

}  // namespace troupe::job
