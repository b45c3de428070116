// Builds the table of a host's model: names, shapes, sharing of parameters, layers. Contains no costs; a dry run
// measures them.
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

/// Checks the list of a host's units. Errors, with the unit named: no units, a unit without a name of its own or
/// without a forward, no loss.
core::result<void> check_units(const module_model& model);

/// Builds the table of a host's model one unit after another, so that not all units need to exist in memory at once.
class table_builder {
 public:
  /// Begins a table with a row for each unit, still without parameters.
  explicit table_builder(const module_model& model);
  /// Adds the parameters and layers of unit `u`, which must be built and come after the last added one. A tensor that
  /// several units have is one parameter, named after the first of them. Errors: a parameter that is not a floating
  /// tensor on the CPU.
  core::result<void> add(const module_unit& unit, uint32_t u);
  /// Removes the tensors of `parts` from the map of known parameters, except tensors that other modules have, too.
  /// Called when the unit's module was removed, because the addresses of its tensors may be reused.
  void forget(module_parts parts);

  [[nodiscard]] core::model_table& table() { return table_; }
  [[nodiscard]] uint32_t number_of(const at::Tensor& parameter) const;

 private:
  core::model_table table_;
  std::unordered_map<const c10::TensorImpl*, uint32_t> known_;  // [tensor]: index of the parameter in the table
};

/// Returns the model's tensor of each parameter of the table, without copies of tied ones; undefined if no unit that
/// has the parameter is built.
std::vector<at::Tensor> parameters_of(const module_model& model, const core::model_table& table);

/// Returns an error that names the first difference if the built units of `model` do not have the names, shapes and
/// sharing of parameters in `table`.
core::result<void> check_alike(const core::model_table& table, const module_model& model);
/// Returns an error that names the first difference if unit `u` does not have the names and shapes of parameters in
/// `table`.
core::result<void> check_alike(const core::model_table& table, const module_unit& unit, uint32_t u);

/// Returns text like "Float [4, 20]".
std::string shape_text(const at::Tensor& t);
/// Returns text like "Float [4, 20]"; for several values like "'hidden' Float [4, 20], 'mask' Bool [4]".
std::string shape_text(const named_values& x);

}  // namespace troupe::models
