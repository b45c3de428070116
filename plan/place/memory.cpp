#include "plan/place/memory.hpp"

#include <algorithm>

#include "plan/layout/activation_extents.hpp"

namespace troupe::plan {
namespace {

uint64_t pool_bytes(const rank_plan& p, pool which) { return p.pool_bytes[static_cast<size_t>(which)]; }

uint64_t cached_bytes(const rank_plan& p) {
  uint64_t elements = 0;
  for (uint32_t k = 0; k < p.layout->gather_sets.size(); ++k)
    if (p.layout->cached[k]) elements += window_elements(shard_runs(p, k));
  return elements * core::size_of(p.options().types.parameter);
}

void count_parameters(rank_plan& p) {
  const auto& o = p.options();
  const uint64_t elements = o.stage == 3 ? p.offsets.shard_elements : p.layout->full_elements[p.layout->pipeline_at(p.rank)];
  p.memory.parameters =
      o.tiers.parameters == tier::nvme ? cached_bytes(p) : elements * core::size_of(o.types.parameter);
}

void count_states(rank_plan& p) {
  const uint64_t element_bytes = core::size_of(p.options().master());
  const bool in_blocks = !p.blocks.empty();
  const auto resident = [&](state_part part) { return p.resident_elements[static_cast<size_t>(part)]; };
  if (in_blocks)
    p.memory.master = resident(state_part::master) * element_bytes;
  else if (!p.options().master_is_parameter())
    p.memory.master = p.offsets.state_elements * element_bytes;
  for (uint32_t k = 0; k < max_moments; ++k)
    p.memory.moments += (in_blocks ? resident(moment_part(k)) : p.moment_elements[k]) * element_bytes;
}

void count_gradients(rank_plan& p) {
  const auto& o = p.options();
  if (o.mode != mode::train) return;
  p.memory.gradients = pool_bytes(p, pool::buckets);
  if (!o.buckets_stay() && !o.tiers.swap_gradients)
    p.memory.accumulated = p.offsets.state_elements * core::size_of(o.types.accumulation);
}

// Tensors that segments save for backward, and the inputs of units that wait for their recompute.
void count_activations(rank_plan& p) {
  const bool trains = p.options().mode == mode::train;
  auto& m = p.memory;
  uint64_t most = 0, inputs = 0;
  for (uint32_t u = 0; u < p.table().units.size(); ++u) {
    uint64_t unit = 0;
    for (const auto& s : p.table().units[u].segments) unit += s.saved_bytes;
    most = std::max(most, unit + inputs);
    if (!trains) continue;
    if (!p.options().recompute) m.activations += unit;
    if (p.options().recompute && activation_window_bytes(*p.layout, u) == 0) inputs += p.table().units[u].input_bytes;
  }
  m.activations = std::max(m.activations, most);
}

}  // namespace

void count_memory(rank_plan& p) {
  const plan::mode made_for = p.options().mode;
  auto& m = p.memory;
  count_parameters(p);
  count_states(p);
  count_gradients(p);
  if (made_for != mode::save) count_activations(p);
  m.gathered = pool_bytes(p, pool::gathered);
  m.offloaded_activations = pool_bytes(p, pool::activations);
  m.directions = pool_bytes(p, pool::directions);
  m.staging = pool_bytes(p, pool::staging);
  m.transfers = pool_bytes(p, pool::transfers);
  if (!p.blocks.empty())
    for (const pool window : {pool::states, pool::shards, pool::reduced}) m.windows += pool_bytes(p, window);
  m.swapped = p.swap_file_bytes;
  if (p.options().tiers.checksums) m.digests = m.swapped / swap_page_bytes * sizeof(uint64_t);
  m.undo = p.undo_bytes;
  m.deferred = deferred_bytes(p);
  if (made_for == mode::train || made_for == mode::evaluate)
    m.votes = (p.layout->vote_elements() + p.layout->measured_elements()) * sizeof(double);
}

}  // namespace troupe::plan
