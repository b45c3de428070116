// How a host's model is cut over the tensor axis: what its policy finds in each unit, put together. Owns what concerns
// several units; one unit's layers are models/inject/injection.hpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
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

  /// Into the modules of a unit that is built; it may cut nothing. `way`: injection::make's.
  [[nodiscard]] core::result<injection> into(const module_unit& unit, uint32_t way = 0) const;
  /// The next unit, as it is cut; `number_of` gives a parameter's place in the table. Refused (bad_input): a weight
  /// that a unit before cuts otherwise.
  core::result<void> add(const module_unit& unit, const injection& made,
                         const std::function<uint32_t(const at::Tensor&)>& number_of);

  /// Of all units, in the order of `table`. Refused (bad_input): a rule or the name of a row layer that matched no
  /// layer; with several ranks also a model without policy or of which nothing is cut, and a parameter that is whole in
  /// one unit and cut, or part of a cut unit, in another.
  core::result<core::tp_plan> plan(const core::model_table& table) const;

  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }

 private:
  [[nodiscard]] core::result<void> check_used() const;
  [[nodiscard]] std::string reasons() const;                    // of all layers, a line each
  void tell_own_layers(const module_unit& unit, size_t count);  // of the last `count` layers

  std::shared_ptr<const injection_policy> policy_;
  uint32_t degree_;
  std::vector<bool> used_, is_cut_;            // [rule], [unit]
  std::vector<core::parameter_cut> cuts_;      // [parameter], as far as there are any
  std::vector<std::vector<uint32_t>> cut_in_;  // [unit]: parameters that it cuts
  std::vector<injected_layer> layers_;
};

}  // namespace troupe::models
