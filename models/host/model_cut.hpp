// How a host's model is cut over the tensor axis: what its policy finds in each unit, put together. Owns what concerns
// several units; one unit's layers are models/inject/injection.hpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "core/tp_plan.hpp"
#include "models/host/module_model.hpp"

namespace troupe::models {

class model_cut {  ///< made unit by unit
 public:
  /// Refers to the model's policy. Without one nothing is cut.
  model_cut(const module_model& model, uint32_t degree);

  /// The next unit, which is built; `number_of` gives a parameter's place in the table. The injection, which may cut
  /// nothing, is of this instance's modules.
  core::result<injection> add(const module_unit& unit, const std::function<uint32_t(const at::Tensor&)>& number_of);

  /// Of all units, in the order of `table`. Refused (bad_input): a rule that matched no layer; with several ranks also
  /// a model without policy or of which nothing is cut, and a parameter that is whole in one unit and cut, or part of a
  /// cut unit, in another.
  core::result<core::tp_plan> plan(const core::model_table& table) const;

  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }

 private:
  std::shared_ptr<const injection_policy> policy_;
  uint32_t degree_;
  std::vector<bool> used_, is_cut_;            // [rule], [unit]
  std::vector<core::parameter_cut> cuts_;      // [parameter], as far as there are any
  std::vector<std::vector<uint32_t>> cut_in_;  // [unit]: parameters that it cuts
  std::vector<injected_layer> layers_;
};

}  // namespace troupe::models
