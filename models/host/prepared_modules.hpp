// A host's model prepared for a run: one instance per rank, checked to have equal structure, one of them run once on a
// batch, and the initial values of the parameters. Made before anything is planned; each rank gets its instance when
// the run starts.
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
  /// Calls `factory` once for each of `ranks` ranks, and runs the first instance on the batch `first`, in `type` on
  /// `device`. For that run, units with factories of their own are built one after another and dropped again. Keeps one
  /// copy, in fp32, of the parameters that were built with the model; of the other instances only the structure.
  /// `tensor` is the number of consecutive ranks that compute a unit together, if the model's policy splits it. Errors:
  /// those of table_builder, check_alike and dry_run; a factory that throws, or that returns the same tensors for two
  /// ranks. Further errors with `tensor` above 1: a model without a policy or with one that cuts nothing, a rule that
  /// matches nothing, those of injection and probe, and a parameter that is whole in one unit and part of a cut unit.
  static core::result<std::unique_ptr<prepared_modules>> make(const module_factory& factory, uint32_t ranks,
                                                              core::dtype type, uint64_t seed, const host_batch& first,
                                                              device::device_id device = {}, uint32_t tensor = 1);

  [[nodiscard]] const core::model_table& table() const { return facts_->table; }
  /// Returns the table with which a rank computes. If tensor-parallel ranks split units, it differs from table(), and
  /// cut() describes how.
  [[nodiscard]] const core::model_table& own_table() const { return facts_->own_table(); }
  [[nodiscard]] const core::tp_plan& cut() const { return facts_->cut; }
  /// Returns for each layer whether it is split over ranks or replaced by Troupe's, with reasons; empty if the policy
  /// requests neither.
  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }
  /// Returns the names of the last unit's outputs.
  [[nodiscard]] const std::vector<std::string>& outputs() const { return facts_->outputs; }

  /// Returns a digest of each parameter's initial values. Processes whose factories make the same model have equal
  /// digests.
  [[nodiscard]] const std::vector<size_t>& digests() const { return digests_; }

  /// Returns the facts of the dry run: inputs and outputs of units, and which units draw random numbers.
  [[nodiscard]] const module_facts& facts() const { return *facts_; }

  /// Restricts rank `rank` to the units whose entry in `units` is true (its pipeline stages); without this call it
  /// computes all.
  void keep(uint32_t rank, std::vector<bool> units) { instances_.at(rank).computes = std::move(units); }

  /// Copies elements [first, first + out.size()) of a parameter's initial values to `out`. If a unit of the rank has a
  /// factory, the unit is built for that, and its values are freed when those of another unit are read; shared units
  /// keep them until `take`. Errors (bad_input): a factory that fails or makes something else than for the dry run.
  core::result<void> read(uint32_t parameter, uint64_t first, std::span<float> out, uint32_t rank = 0);

  /// Makes a step fail if a trained parameter gets no gradient in micro-batch number `micro`. Must be called before
  /// `take`.
  void need_all_gradients_in(uint32_t micro) { facts_->all_used_in = micro; }

  /// Returns the instance of a rank, with all units built that the rank computes; may be called once per rank. Errors
  /// (bad_input): a factory that fails or makes something else than for the dry run.
  [[nodiscard]] core::result<std::unique_ptr<language_model>> take(uint32_t rank);

 private:
  struct instance {
    module_model model;
    module_builder builder;
    std::vector<bool> computes{};  ///< [unit]: true if the rank computes the unit; empty: the rank computes all units
    size_t reading = 0;            ///< index of the unit whose initial values are in memory
  };
  core::result<void> find_table(module_model& model, uint64_t seed, const host_batch& first, uint32_t tensor);
  core::result<injection> cut_of(const module_unit& unit, const model_cut& cut, dry_run& trial, uint32_t tensor);
  core::result<void> build(uint32_t rank, size_t unit);
  [[nodiscard]] bool computes(uint32_t rank, size_t unit) const {
    return instances_[rank].computes.empty() || instances_[rank].computes[unit];
  }

  std::shared_ptr<module_facts> facts_;
  // [parameter]: initial values in fp32, contiguous; undefined if the unit's factory makes them again when they are
  // read.
  std::vector<at::Tensor> values_;
  std::vector<size_t> digests_;  // [parameter]: digest of its initial values, as first made
  std::vector<instance> instances_;
  std::vector<injected_layer> layers_;
};

}  // namespace troupe::models
