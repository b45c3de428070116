#include "plan/choose/tier_search.hpp"

#include <algorithm>
#include <utility>

namespace troupe::plan {
namespace {

struct wanted {
  const char* name;
  tier optimizer, parameters;
  bool gradients;  // true: reduced gradients are in swap files
  tier activations;
};

constexpr wanted ladder_of_tiers[] = {
    {"all in device memory", tier::device, tier::device, false, tier::device},
    {"optimizer on cpu", tier::cpu, tier::device, false, tier::device},
    {"+ parameters on cpu", tier::cpu, tier::cpu, false, tier::device},
    {"optimizer on nvme", tier::nvme, tier::device, false, tier::device},
    {"+ gradients on nvme", tier::nvme, tier::device, true, tier::device},
    {"+ parameters on nvme", tier::nvme, tier::nvme, true, tier::device},
    {"+ activations on nvme", tier::nvme, tier::nvme, true, tier::nvme},
};

rung tried(const fit_request& request, const wanted& w, uint32_t stage) {
  rung out;
  out.name = (stage == request.options.stage ? "" : "stage 3: ") + std::string(w.name);
  fit_request r = request;
  auto& o = r.options;
  if (stage != o.stage) {  // the settings that the configuration would have at that stage
    o.stage = stage;
    o.overlap = true;
    o.gradients.sum_micro_first = false;
  }
  o.tiers.optimizer = w.optimizer;
  o.tiers.parameters = w.parameters;
  o.tiers.activations = w.activations;
  if (w.activations != tier::device) o.recompute = true;
  o.tiers.two_places = o.tiers.swaps() && o.updates.speculate && o.updates.may_undo();
  // On rungs with gradients in files, the search chooses whether they leave memory, together with the sizes.
  r.open.swap_gradients = request.open.swap_gradients && w.gradients && request.limits.any();
  o.tiers.swap_gradients = w.gradients;
  r.open.ratio = request.open.ratio && stage == 3;  // the ratio is open only at stage 3, as in DeepSpeed
  const auto whole = [](const parameter_update& u) { return u.need != update_need::elements; };
  if (o.tiers.swaps() && std::any_of(o.updates.rules.begin(), o.updates.rules.end(), whole)) {
    out.refusal = "the optimizer needs whole parameters";
    return out;
  }
  auto found = choose(r);
  if (!found) {
    out.refusal = found.error().text;
    return out;
  }
  out.found = std::move(*found);
  out.bytes = bytes_by_tier(out.found.memory, out.found.options.tiers);
  return out;
}

}  // namespace

tier_ladder try_tiers(const fit_request& request) {
  tier_ladder out;
  const uint32_t configured = request.options.stage;
  for (uint32_t stage : {configured, 3U}) {
    if (stage == 3 && !out.rungs.empty() && configured == 3) break;
    for (const auto& w : ladder_of_tiers) {
      if (stage == 0 && w.optimizer != tier::device) continue;
      if (stage < 3 && w.parameters != tier::device) continue;
      if (w.activations != tier::device && (request.limits.total == 0 || request.options.tiers.apart)) continue;
      out.rungs.push_back(tried(request, w, stage));
      const auto& x = out.rungs.back();
      if (!x.refusal.empty()) continue;
      const size_t here = out.rungs.size() - 1;
      if (x.found.fits && !out.chosen) out.chosen = here;
      if (!out.smallest || x.found.missing < out.rungs[*out.smallest].found.missing) out.smallest = here;
    }
  }
  const auto& unit = largest_unit(*request.table);
  out.largest_unit = unit.name;
  out.largest_unit_bytes = elements_of(*request.table, unit) * core::size_of(request.options.types.parameter);
  return out;
}

}  // namespace troupe::plan
