// How the model of the host program (the host) is split over tensor-parallel ranks: combines the cuts that the
// model's policy finds in each unit. Owns the rules that concern several units; leaves the layers of one unit to
// models/inject/injection.hpp.
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

class model_cut {  ///< collects, unit by unit, how a model is split over tensor-parallel ranks
 public:
  /// Begins a cut of `model` over `degree` ranks by the model's policy; without a policy nothing is cut.
  model_cut(const module_model& model, uint32_t degree);

  /// Returns how the modules of a built unit are cut, possibly not at all. `way` selects one of several possible cuts,
  /// as for injection::make.
  [[nodiscard]] core::result<injection> into(const module_unit& unit, uint32_t way = 0) const;
  /// Records that the next unit is cut as `made` says; `number_of` must return a parameter's index in the table. Errors
  /// (bad_input): a weight that an earlier unit cuts differently.
  core::result<void> add(const module_unit& unit, const injection& made,
                         const std::function<uint32_t(const at::Tensor&)>& number_of);

  /// Returns the cut of every parameter of `table`, after all units were added. Errors (bad_input): a rule or the name
  /// of a row layer that matched no layer; with several ranks also a model without policy or without any cut, and a
  /// parameter that is whole in one unit and cut, or part of a cut unit, in another.
  core::result<core::tp_plan> plan(const core::model_table& table) const;

  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }

 private:
  [[nodiscard]] core::result<void> check_used() const;
  [[nodiscard]] std::string reasons() const;  // text for errors: each layer and why it is cut or not, one per line
  // Appends to the reasons of the last `count` layers whether Troupe computes them.
  void tell_own_layers(const module_unit& unit, size_t count);

  std::shared_ptr<const injection_policy> policy_;
  uint32_t degree_;
  // [rule]: true if it matched a layer; [unit]: true if a layer of it is split over ranks.
  std::vector<bool> used_, is_cut_;
  std::vector<core::parameter_cut> cuts_;      // [parameter]: how it is split over ranks; may be shorter than the table
  std::vector<std::vector<uint32_t>> cut_in_;  // [unit]: parameters that are split over ranks in this unit
  std::vector<injected_layer> layers_;
  size_t own_blocks_ = 0;  // number of modules that have the roles of the policy's blocks
};

}  // namespace troupe::models
