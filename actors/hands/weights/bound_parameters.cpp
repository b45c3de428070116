#include "actors/hands/weights/bound_parameters.hpp"

#include <utility>

namespace troupe::actors {

bound_parameters::bound_parameters(std::shared_ptr<rank_memory> memory, std::vector<at::Tensor> own)
    : memory_(std::move(memory)),
      binding_(memory_->plan().table(), memory_->plan().options().types.parameter, std::move(own), memory_->device()),
      bound_at_(memory_->plan().table().parameters.size(), nullptr),
      uncompressed_at_(bound_at_) {
  const auto& first = memory_->plan();
  if (first.layout->gathers()) return;
  for (uint32_t q = 0; q < bound_at_.size(); ++q)
    if (first.layout->holds(first.rank, q)) bind(q, memory_->parameter(q, 0));
}

void bound_parameters::begin(const step_context& context) {
  if (std::exchange(program_, context.program) != context.program) look_up();
}

void bound_parameters::bind_for(const plan::instruction& x) {
  const bool gathers = p().layout->gathers();
  if (!gathers)  // undoes the binding to compressed weights by an earlier use of the unit
    for (const uint32_t q : p().table().units[x.subject].parameters) bind(q, memory_->parameter(q, 0));
  if (gathers) bind_gathered(x);
  const bool reads_as_they_are = x.kind == plan::kind::survey || x.kind == plan::kind::compress;
  if (reads_as_they_are || x.slots.compressed == plan::none) return;
  auto* base = memory_->window(p(), x.slots.compressed);
  for (const auto& place : p().layout->compressed[x.subject].parameters) {
    uncompressed_at_[place.parameter] = bound_at_[place.parameter];
    bind(place.parameter, base + place.offset * core::size_of(p().options().types.parameter));
  }
}

void bound_parameters::bind_gathered(const plan::instruction& x) {
  if (x.slots.parameters != plan::none) bind_set(x.subject, x.slots.parameters);
  if (persistent_buffer_ != plan::none) bind_set(p().layout->persistent_set(p().rank), persistent_buffer_);
}

void bound_parameters::release(const plan::instruction& x) {
  auto* base = memory_->at(plan::pool::gathered) + p().buffers[x.slots.parameters].offset;
  if (x.near) memory_->keep_near(p(), x.subject, base);
  for (const auto& place : p().layout->gather_sets[x.subject].parameters) {
    if (bound_at_[place.parameter] != base + place.offset * core::size_of(p().options().types.parameter)) continue;
    binding_.release(place.parameter);
    bound_at_[place.parameter] = nullptr;
  }
}

models::gradient_target bound_parameters::target(uint32_t q, uint32_t micro, step_context& run) {
  const auto& o = p().options();
  const uint32_t b = p().layout->bucket_of[q];
  // If a gradient bucket has one buffer for the whole step (buckets_stay), the buffer sums all micro-batches; otherwise
  // each micro-batch has a buffer of its own, which starts empty, and several such buffers may be in use at a time.
  const auto& buffer = p().buffers[p().bucket_buffer[b * o.accumulation + micro]];
  const size_t place = size_t{q} * o.accumulation + (o.buckets_stay() ? 0 : micro);
  const bool accumulate = run.gradients_written[place];
  run.gradients_written[place] = true;
  return {memory_->at(plan::pool::buckets) + buffer.offset + bucket_offset_[q] * core::size_of(o.bucket_type()),
          o.bucket_type(), accumulate};
}

void bound_parameters::bind(uint32_t q, void* at) {
  if (bound_at_[q] == at) return;
  binding_.bind(q, at);
  bound_at_[q] = at;
  for (const uint32_t other : binding_.sharing(q)) bound_at_[other] = nullptr;
}

void bound_parameters::bind_set(uint32_t set, uint32_t buffer) {
  auto* base = memory_->at(plan::pool::gathered) + p().buffers[buffer].offset;
  for (const auto& x : p().layout->gather_sets[set].parameters)
    bind(x.parameter, base + x.offset * core::size_of(p().options().types.parameter));
}

// Computes bucket_offset_ and persistent_buffer_ from the plan of the current run; called when the plan has changed.
void bound_parameters::look_up() {
  bucket_offset_.assign(p().table().parameters.size(), 0);
  for (const auto& b : p().layout->buckets)
    for (const auto& x : b.parameters) bucket_offset_[x.parameter] = x.offset;
  persistent_buffer_ = plan::none;
  const uint32_t persistent = p().layout->persistent_set(p().rank);
  if (!p().layout->gathers() || p().layout->gather_sets[persistent].numel == 0) return;
  for (uint32_t b = 0; b < p().buffers.size() && persistent_buffer_ == plan::none; ++b)
    if (p().buffers[b].pool == plan::pool::gathered && p().buffers[b].subject == persistent) persistent_buffer_ = b;
}

}  // namespace troupe::actors
