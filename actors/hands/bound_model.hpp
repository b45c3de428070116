// A rank's model and the places in memory that its parameters are bound to. Owned together by the stages of the rank,
// which run one at a time; a parameter that a host's modules share lies where the stage that runs has bound it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/memory/rank_memory.hpp"
#include "models/families/language_model.hpp"
#include "models/layers/parameter_binding.hpp"

namespace troupe::actors {

class bound_model {
 public:
  /// Binds what the rank holds whole, where parameters are not gathered.
  bound_model(std::unique_ptr<models::language_model> model, std::shared_ptr<rank_memory> memory);

  /// Binds the parameters of a gather set to the gathered bytes in a buffer of `p`.
  void bind_set(const plan::rank_plan& p, uint32_t set, uint32_t buffer);
  /// Parameters of the buffer's set that are still bound to it are bound no longer.
  void release_set(const plan::rank_plan& p, uint32_t set, uint32_t buffer);

  [[nodiscard]] models::language_model& model() const { return *model_; }
  [[nodiscard]] const models::parameter_binding& binding() const { return binding_; }

 private:
  void bind(uint32_t parameter, void* at);
  [[nodiscard]] std::byte* place(const plan::rank_plan& p, uint32_t buffer, uint64_t element) const;

  std::unique_ptr<models::language_model> model_;
  std::shared_ptr<rank_memory> memory_;
  models::parameter_binding binding_;
  std::vector<void*> bound_at_;  // [parameter]
};

}  // namespace troupe::actors
