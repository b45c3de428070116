// A host's model made ready for a run: an instance for each rank, proved alike, tried once, and the values that
// training starts from. Made before anything is planned; hands everything over and is then done with.
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
  /// Calls the factory once for each rank and tries the first instance on `first`, in `type` on
  /// `device`. Refuses what table_of,
  /// check_alike and dry_run refuse, a factory that throws, and one that gives two ranks the same tensors.
  /// Holds one whole copy of the parameters in fp32; of the other instances only the structure.
  static core::result<std::unique_ptr<prepared_modules>> make(const module_factory& factory, uint32_t ranks,
                                                              core::dtype type, uint64_t seed, const host_batch& first,
                                                              device::device_id device = {});

  [[nodiscard]] const core::model_table& table() const { return facts_->table; }

  /// Elements [first, first + out.size()) of what the first instance's parameter held.
  void read(uint32_t parameter, uint64_t first, std::span<float> out) const;

  /// From now on a trained parameter that gets no gradient in that micro-batch of a step fails the step; before `take`.
  void need_all_gradients_in(uint32_t micro) { facts_->all_used_in = micro; }

  /// The instance of a rank, once.
  [[nodiscard]] std::unique_ptr<language_model> take(uint32_t rank);

 private:
  std::shared_ptr<module_facts> facts_;
  std::vector<at::Tensor> values_;  // [parameter] fp32, contiguous
  std::vector<module_model> instances_;
};

}  // namespace troupe::models
