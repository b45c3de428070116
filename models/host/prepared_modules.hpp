// A host's model made ready for a run: an instance for each rank, checked to be alike, run once, and the values that
// training starts from. Made before anything is planned, given away when the run starts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/families/language_model.hpp"
#include "models/host/module_model.hpp"
#include "models/host/module_runner.hpp"

namespace troupe::models {

class prepared_modules {
 public:
  /// Calls the factory once for each rank and runs the first instance on `first`, in `type` on `device`. Refuses
  /// whatever table_of, check_alike and dry_run refuse, a factory that throws, and one that gives two ranks the same
  /// tensors. Keeps one whole copy of the parameters in fp32; of the other instances only the structure.
  static core::result<std::unique_ptr<prepared_modules>> make(const module_factory& factory, uint32_t ranks,
                                                              core::dtype type, uint64_t seed, const host_batch& first,
                                                              device::device_id device = {});

  [[nodiscard]] const core::model_table& table() const { return facts_->table; }

  /// Elements [first, first + out.size()) of a parameter's values in the first instance.
  void read(uint32_t parameter, uint64_t first, std::span<float> out) const;

  /// Makes a step fail if a trained parameter gets no gradient in micro-batch `micro`; call before `take`.
  void need_all_gradients_in(uint32_t micro) { facts_->all_used_in = micro; }

  /// Gives the instance of a rank away; once per rank.
  [[nodiscard]] std::unique_ptr<language_model> take(uint32_t rank);

 private:
  std::shared_ptr<module_facts> facts_;
  std::vector<at::Tensor> values_;  // [parameter] fp32, contiguous
  std::vector<module_model> instances_;
};

}  // namespace troupe::models
