#include "plan/memory_places.hpp"

namespace troupe::plan {

std::string owner_bytes::label() const { return std::string(owner) + (is == amount::predicted ? " (predicted)" : ""); }

std::vector<owner_bytes> owners_of(const memory_table& m, const tier_options& tiers) {
  const auto of = [](tier t) { return t == tier::device ? tier::device : tier::cpu; };
  const tier parameters = of(tiers.parameters), states = of(tiers.optimizer);
  return {{"parameters", m.parameters, parameters},
          {"second copies of parameters", m.near_copies, parameters},
          {"gathered parameters", m.gathered},
          {"master weights", m.master, states},
          {"moments", m.moments, states},
          {"gradient buckets", m.gradients},
          {"accumulated gradients", m.accumulated, states},
          {"activations", m.activations, tier::device, owner_bytes::amount::predicted},
          {"offloaded activations", m.offloaded_activations, tier::cpu},
          {"update directions", m.directions, states},
          {"votes", m.votes, tier::cpu},
          {"transfers between ranks", m.transfers},
          {"compressed parameters", m.compressed},
          {"masks of pruned parameters", m.masks},
          {"staging for checkpoints", m.staging, tier::cpu},
          {"undo copies", m.undo, states},
          {"deferred gradients", m.deferred, states},
          {"windows onto swap files", m.windows, tier::cpu},
          {"digests of swap files", m.digests, tier::cpu}};
}

tier_bytes bytes_by_tier(const memory_table& m, const tier_options& tiers) {
  tier_bytes out{};
  for (const auto& x : owners_of(m, tiers)) out[static_cast<size_t>(x.lies)] += x.bytes;
  out[static_cast<size_t>(tier::nvme)] = m.swapped;
  return out;
}

uint64_t budgeted_bytes(const memory_table& m, const tier_options& tiers) {
  if (!tiers.apart) return m.states();
  return bytes_by_tier(m, tiers)[static_cast<size_t>(tier::cpu)] - m.offloaded_activations - m.votes;
}

uint64_t device_bytes(const memory_table& m, const tier_options& tiers) {
  return tiers.apart ? bytes_by_tier(m, tiers)[static_cast<size_t>(tier::device)] : 0;
}

}  // namespace troupe::plan
