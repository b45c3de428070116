#include "actors/hands/bound_model.hpp"

#include <utility>

namespace troupe::actors {

bound_model::bound_model(std::unique_ptr<models::language_model> model, std::shared_ptr<rank_memory> memory)
    : model_(std::move(model)),
      memory_(std::move(memory)),
      binding_(memory_->plan().table(), memory_->plan().options().types.parameter, model_->own_parameters(),
               memory_->device()),
      bound_at_(memory_->plan().table().parameters.size(), nullptr) {
  const auto& p = memory_->plan();
  if (p.layout->gathers()) return;
  for (uint32_t q = 0; q < p.table().parameters.size(); ++q)
    if (p.layout->holds(p.rank, q)) bind(q, memory_->parameter(q, 0));
}

void bound_model::bind(uint32_t q, void* at) {
  if (bound_at_[q] == at) return;
  binding_.bind(q, at);
  bound_at_[q] = at;
  for (const uint32_t other : binding_.sharing(q)) bound_at_[other] = nullptr;
}

std::byte* bound_model::place(const plan::rank_plan& p, uint32_t buffer, uint64_t element) const {
  return memory_->at(plan::pool::gathered) + p.buffers[buffer].offset +
         element * core::size_of(p.options().types.parameter);
}

void bound_model::bind_set(const plan::rank_plan& p, uint32_t set, uint32_t buffer) {
  for (const auto& x : p.layout->gather_sets[set].parameters) bind(x.parameter, place(p, buffer, x.offset));
}

void bound_model::release_set(const plan::rank_plan& p, uint32_t set, uint32_t buffer) {
  for (const auto& x : p.layout->gather_sets[set].parameters) {
    if (bound_at_[x.parameter] != place(p, buffer, x.offset)) continue;
    binding_.release(x.parameter);
    bound_at_[x.parameter] = nullptr;
  }
}

}  // namespace troupe::actors
