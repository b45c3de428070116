// The table of a host's model: names, shapes, ties, layers. No costs; a dry run finds those.
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

/// Refused, with the unit named: no units, a unit without a name of its own or without a forward, no loss.
core::result<void> check_units(const module_model& model);

/// Makes the table unit by unit, so that not all of them need to be built at once.
class table_builder {
 public:
  /// A row for each unit, as yet without parameters.
  explicit table_builder(const module_model& model);
  /// Adds the parameters and layers of unit `u`, the next one, which is built. A tensor that several units hold is one
  /// parameter, named after the first. Refused: a parameter that is not a floating tensor on the CPU.
  core::result<void> add(const module_unit& unit, uint32_t u);
  /// The unit's module is gone: what nobody else holds of `parts` is not known any more.
  void forget(module_parts parts);

  [[nodiscard]] core::model_table& table() { return table_; }
  [[nodiscard]] uint32_t number_of(const at::Tensor& parameter) const;

 private:
  core::model_table table_;
  std::unordered_map<const c10::TensorImpl*, uint32_t> known_;  // numbers of parameters
};

/// [parameter of the table, without copies]: the model's tensor, undefined where no unit is built that holds it.
std::vector<at::Tensor> parameters_of(const module_model& model, const core::model_table& table);

/// Refuses a model that is not made like the table's, naming the first difference; units that are not built have none.
core::result<void> check_alike(const core::model_table& table, const module_model& model);
/// The same of unit `u`, alone.
core::result<void> check_alike(const core::model_table& table, const module_unit& unit, uint32_t u);

/// "Float [4, 20]"
std::string shape_text(const at::Tensor& t);
/// The same, and of several "'hidden' Float [4, 20], 'mask' Bool [4]".
std::string shape_text(const named_values& x);

}  // namespace troupe::models
