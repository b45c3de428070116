// A host's model made ready for a run: an instance for each rank, checked to be alike, run once, and the values that
// training starts from. Made before anything is planned, given away when the run starts.
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
  /// Calls the factory once for each rank and runs the first instance on `first`, in `type` on `device`. Units with
  /// factories of their own are built for that one after the other, and dropped. Refuses whatever table_builder,
  /// check_alike and dry_run refuse, a factory that throws, and one that gives two ranks the same tensors. Keeps one
  /// whole copy of the parameters that were built with the model, in fp32; of the other instances only the structure.
  /// `tensor` ranks that follow each other compute a unit together where the model's policy cuts it; refused then: a
  /// model without a policy or with one that cuts nothing, a rule that matches nothing, what injection and probe
  /// refuse, and a parameter that is whole in one unit and part of a cut one.
  static core::result<std::unique_ptr<prepared_modules>> make(const module_factory& factory, uint32_t ranks,
                                                              core::dtype type, uint64_t seed, const host_batch& first,
                                                              device::device_id device = {}, uint32_t tensor = 1);

  [[nodiscard]] const core::model_table& table() const { return facts_->table; }
  /// What a rank computes with, and how that is cut out of `table()`.
  [[nodiscard]] const core::model_table& own_table() const { return facts_->own_table(); }
  [[nodiscard]] const core::tp_plan& cut() const { return facts_->cut; }
  /// What of the modules is cut or replaced, what not and why; nothing where the policy asks for neither.
  [[nodiscard]] const std::vector<injected_layer>& layers() const { return layers_; }
  /// Names of what the last unit puts out.
  [[nodiscard]] const std::vector<std::string>& outputs() const { return facts_->outputs; }

  /// Of the values that parameters start with: equal in processes whose factories make the same model.
  [[nodiscard]] const std::vector<size_t>& digests() const { return digests_; }

  /// What the dry run has seen: what units take and put out, whether they draw random numbers.
  [[nodiscard]] const module_facts& facts() const { return *facts_; }

  /// Rank `rank` computes the units where this is true; without this call, all.
  void keep(uint32_t rank, std::vector<bool> units) { instances_.at(rank).computes = std::move(units); }

  /// Elements [first, first + out.size()) of the values that a parameter starts with. Where a unit of the rank has a
  /// factory of its own, it is built and keeps its values until those of another unit are read, shared ones until
  /// `take`. Refused (bad_input): a factory that fails or makes something else than for the dry run.
  core::result<void> read(uint32_t parameter, uint64_t first, std::span<float> out, uint32_t rank = 0);

  /// Makes a step fail if a trained parameter gets no gradient in micro-batch `micro`; call before `take`.
  void need_all_gradients_in(uint32_t micro) { facts_->all_used_in = micro; }

  /// Gives the instance of a rank away, with all units built that it computes; once per rank. Refused: as `read`.
  [[nodiscard]] core::result<std::unique_ptr<language_model>> take(uint32_t rank);

 private:
  struct instance {
    module_model model;
    module_builder builder;
    std::vector<bool> computes{};  ///< [unit]; empty: all
    size_t reading = 0;            ///< the unit whose values are there
  };
  core::result<void> survey(module_model& model, uint64_t seed, const host_batch& first, uint32_t tensor);
  core::result<injection> cut_of(const module_unit& unit, const model_cut& cut, dry_run& trial, uint32_t tensor);
  core::result<void> build(uint32_t rank, size_t unit);
  [[nodiscard]] bool computes(uint32_t rank, size_t unit) const {
    return instances_[rank].computes.empty() || instances_[rank].computes[unit];
  }

  std::shared_ptr<module_facts> facts_;
  std::vector<at::Tensor> values_;  // [parameter] fp32, contiguous; undefined where its unit has a factory
  std::vector<size_t> digests_;     // [parameter]: of these, or of what the factory made for the dry run
  std::vector<instance> instances_;
  std::vector<injected_layer> layers_;
};

}  // namespace troupe::models
