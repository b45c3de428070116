// The cut of a host's model over the tensor axis: combines the cuts that its policy finds in each unit. Owns the rules
// that concern several units; leaves the layers of one unit to models/inject/injection.hpp.
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

class model_cut {  ///< computes how a model is cut over the tensor axis, unit by unit
 public:
  /// Uses the model's policy; without one nothing is cut.
  model_cut(const module_model& model, uint32_t degree);

  /// Returns the cut of the modules of a built unit, which may be empty. `way`: as for injection::make.
  [[nodiscard]] core::result<injection> into(const module_unit& unit, uint32_t way = 0) const;
  /// Adds the next unit, as it is cut; `number_of` returns a parameter's number in the table. Errors (bad_input): a
  /// weight that an earlier unit cuts differently.
  core::result<void> add(const module_unit& unit, const injection& made,
                         const std::function<uint32_t(const at::Tensor&)>& number_of);

  /// Returns the plan of all units, in the order of `table`. Errors (bad_input): a rule or the name of a row layer that
  /// matched no layer; with several ranks also a model without policy or without any cut, and a parameter that is whole
  /// in one unit and cut, or part of a cut unit, in another.
  core::result<core::tp_plan> plan(const core::model_table& table) const;

  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }

 private:
  [[nodiscard]] core::result<void> check_used() const;
  [[nodiscard]] std::string reasons() const;                    // reasons of all layers, a line each
  void tell_own_layers(const module_unit& unit, size_t count);  // adds the own layers among the last `count` layers

  std::shared_ptr<const injection_policy> policy_;
  uint32_t degree_;
  std::vector<bool> used_, is_cut_;            // [rule]: true if a layer matched it; [unit]: true if the unit is cut
  std::vector<core::parameter_cut> cuts_;      // [parameter]: cut of the parameter; may be shorter than the table
  std::vector<std::vector<uint32_t>> cut_in_;  // [unit]: parameters that the unit cuts
  std::vector<injected_layer> layers_;
};

}  // namespace troupe::models
