// Computes which outputs and inputs of which layers remain when rows, channels or heads are cut out of a model: of the
// pruned module and of its related modules. Owns these positions and the refusals; job/compression/clean.hpp maps them
// to the memory order of parameters.
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

/// A module from which pruning removes outputs or inputs, so that it becomes smaller.
struct cut_module {
  std::string module;
  /// Indices of the outputs and of the inputs that remain, ascending; empty: all remain.
  std::vector<uint64_t> outputs, inputs;
};

/// Refuses (bad_input) a weight that a module other than `module` reads, unless `is_alike` accepts that module.
core::result<void> check_not_shared(const core::model_table& table, const std::string& module, uint32_t weight,
                                    const std::function<bool(const core::layer_info&)>& is_alike,
                                    const std::string& where, const std::string& key);

/// Returns the row indices, in the weight of layer `l`, of the attention heads that remain: head h remains if bit h of
/// `bits` is 1. `l` computes queries, keys or values, or several of them packed; for a packed weight, the indices are
/// in order of its parts, and by head in each part. Empty if the layer does not have `heads` heads.
std::vector<uint64_t> rows_of_heads(const core::layer_info& l, const kernels::mask_bits& bits, uint64_t heads);

/// Collects which rows and columns of each module remain when pruning masks are applied one after the other.
class module_cuts {
 public:
  using layers = std::vector<const core::layer_info*>;
  explicit module_cuts(const core::model_table& table) : table_(table) {}

  /// Cuts `m` and the related modules that take its outputs, are parallel to it or normalise it, down to what `bits`
  /// keeps; returns the number of remaining rows or heads. Refused (bad_input), with `where` and `key`: a related
  /// module that has another width, that another mask cuts differently, or whose weight other modules read; single
  /// elements, which cannot be cut out; convolutions in groups; queries, keys and values with other heads, or whose
  /// order in the layer is unknown.
  core::result<uint64_t> cut(const pruned_module& m, const kernels::mask_bits& bits, const layers& related,
                             const std::string& where, const std::string& key);

  /// Returns, by module name, what remains of each module from which rows or columns are removed.
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
