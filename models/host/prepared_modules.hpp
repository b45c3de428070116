// A host's model prepared for a run: an instance for each rank, checked to be alike and run once, and the initial
// values of the parameters. Made before anything is planned; the instances are handed over when the run starts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/families/language_model.hpp"
#include "models/host/module_builder.hpp"
#include "models/host/module_model.hpp"
#include "models/host/module_runner.hpp"

namespace troupe::models {

class dry_run;
class model_cut;

class prepared_modules {
 public:
  /// Calls the factory once for each rank and runs the first instance on `first`, in `type` on `device`. For that,
  /// units with factories of their own are built one after another, and dropped. Errors: those of table_builder,
  /// check_alike and dry_run, a factory that throws, and one that returns the same tensors for two ranks. Keeps one
  /// whole copy, in fp32, of the parameters that were built with the model; of the other instances only the structure.
  /// `tensor` consecutive ranks compute a unit together if the model's policy cuts it; further errors then: a model
  /// without a policy or with one that cuts nothing, a rule that matches nothing, those of injection and probe, and a
  /// parameter that is whole in one unit and part of a cut one.
  static core::result<std::unique_ptr<prepared_modules>> make(const module_factory& factory, uint32_t ranks,
                                                              core::dtype type, uint64_t seed, const host_batch& first,
                                                              device::device_id device = {}, uint32_t tensor = 1);

  [[nodiscard]] const core::model_table& table() const { return facts_->table; }
  /// Returns the table that a rank computes with; cut() describes how it is cut out of table().
  [[nodiscard]] const core::model_table& own_table() const { return facts_->own_table(); }
  [[nodiscard]] const core::tp_plan& cut() const { return facts_->cut; }
  /// Returns which modules are cut or replaced and which not, with reasons; empty if the policy requests neither.
  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }
  /// Returns the names of the last unit's outputs.
  [[nodiscard]] const std::vector<std::string>& outputs() const { return facts_->outputs; }

  /// Returns digests of the initial values of parameters: equal in processes whose factories make the same model.
  [[nodiscard]] const std::vector<size_t>& digests() const { return digests_; }

  /// Returns the facts of the dry run: inputs and outputs of units, and which units draw random numbers.
  [[nodiscard]] const module_facts& facts() const { return *facts_; }

  /// Limits rank `rank` to the units for which this is true; without this call it computes all.
  void keep(uint32_t rank, std::vector<bool> units) { instances_.at(rank).computes = std::move(units); }

  /// Reads elements [first, first + out.size()) of a parameter's initial values. If a unit of the rank has a factory of
  /// its own, the unit is built and keeps its values until those of another unit are read; shared units keep them until
  /// `take`. Errors (bad_input): a factory that fails or makes something else than for the dry run.
  core::result<void> read(uint32_t parameter, uint64_t first, std::span<float> out, uint32_t rank = 0);

  /// Makes a step fail if a trained parameter gets no gradient in micro-batch `micro`; call before `take`.
  void need_all_gradients_in(uint32_t micro) { facts_->all_used_in = micro; }

  /// Hands over the instance of a rank, with all units built that the rank computes; once per rank. Errors (bad_input):
  /// a factory that fails or makes something else than for the dry run.
  [[nodiscard]] core::result<std::unique_ptr<language_model>> take(uint32_t rank);

 private:
  struct instance {
    module_model model;
    module_builder builder;
    std::vector<bool> computes{};  ///< [unit]: true if the rank computes the unit; empty: the rank computes all units
    size_t reading = 0;            ///< index of the unit whose initial values are in memory
  };
  core::result<void> survey(module_model& model, uint64_t seed, const host_batch& first, uint32_t tensor);
  core::result<injection> cut_of(const module_unit& unit, const model_cut& cut, dry_run& trial, uint32_t tensor);
  core::result<void> build(uint32_t rank, size_t unit);
  [[nodiscard]] bool computes(uint32_t rank, size_t unit) const {
    return instances_[rank].computes.empty() || instances_[rank].computes[unit];
  }

  std::shared_ptr<module_facts> facts_;
  // [parameter]: initial values in fp32, contiguous; undefined where the unit has a factory.
  std::vector<at::Tensor> values_;
  std::vector<size_t> digests_;  // [parameter]: digest of its initial values; with a factory, of those in the dry run
  std::vector<instance> instances_;
  std::vector<injected_layer> layers_;
};

}  // namespace troupe::models
