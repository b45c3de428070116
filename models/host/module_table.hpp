// The table of a host's model: names, shapes, ties, layers. Contains no costs; a dry run finds them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/host/module_model.hpp"
#include "models/host/module_parts.hpp"

namespace troupe::models {

/// Checks a model's units. Errors, with the unit named: no units, a unit without a name of its own or without a
/// forward, no loss.
core::result<void> check_units(const module_model& model);

/// Builds the table of a host's model unit by unit, so that not all units need to be in memory at once.
class table_builder {
 public:
  /// Makes a row for each unit, without parameters.
  explicit table_builder(const module_model& model);
  /// Adds the parameters and layers of unit `u`, the next one, which must be built. A tensor that several units hold is
  /// one parameter, named after the first. Errors: a parameter that is not a floating tensor on the CPU.
  core::result<void> add(const module_unit& unit, uint32_t u);
  /// Forgets the tensors of `parts` that no other module holds; called when the unit's module is gone.
  void forget(module_parts parts);

  [[nodiscard]] core::model_table& table() { return table_; }
  [[nodiscard]] uint32_t number_of(const at::Tensor& parameter) const;

 private:
  core::model_table table_;
  std::unordered_map<const c10::TensorImpl*, uint32_t> known_;  // [tensor]: number of the parameter
};

/// Returns [parameter, copies left out]: the model's tensor of the parameter; undefined if no unit that has it is
/// built.
std::vector<at::Tensor> parameters_of(const module_model& model, const core::model_table& table);

/// Returns an error that names the first difference if a model does not have the table's structure; units that are not
/// built are not compared.
core::result<void> check_alike(const core::model_table& table, const module_model& model);
/// Returns an error that names the first difference if unit `u` does not have the table's structure.
core::result<void> check_alike(const core::model_table& table, const module_unit& unit, uint32_t u);

/// Returns text like "Float [4, 20]".
std::string shape_text(const at::Tensor& t);
/// Returns text like "Float [4, 20]"; for several values like "'hidden' Float [4, 20], 'mask' Bool [4]".
std::string shape_text(const named_values& x);

}  // namespace troupe::models
