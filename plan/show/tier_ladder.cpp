#include "plan/show/tier_ladder.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "core/text.hpp"
#include "plan/show/render.hpp"

namespace troupe::plan {
namespace {

std::string seconds_text(double s) { return core::text_of(s < 10 ? "%.1f ms" : "%.1f s", s < 10 ? 1e3 * s : s); }

const char* name_in_yaml(tier t) { return t == tier::device ? "none" : t == tier::cpu ? "cpu" : "nvme"; }

/// Returns `text` in quotes, so that YAML reads it back unchanged.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string as_text(const tier_ladder& ladder, const fit_request& request) {
  std::vector<std::vector<std::string>> rows{
      {"tiers", "device", "cpu", "nvme", "budgeted", "step", "read", "written", "verdict"}};
  std::optional<size_t> fastest;
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    const auto& x = ladder.rungs[i];
    if (x.refusal.empty() && x.found.fits && (!fastest || x.found.step_s < ladder.rungs[*fastest].found.step_s))
      fastest = i;
  }
  for (size_t i = 0; i < ladder.rungs.size(); ++i) {
    const auto& x = ladder.rungs[i];
    if (!x.refusal.empty()) {
      rows.push_back({x.name, "-", "-", "-", "-", "-", "-", "-", "impossible: " + x.refusal});
      continue;
    }
    const auto& f = x.found;
    rows.push_back({x.name, core::human_bytes(x.bytes[0]), core::human_bytes(x.bytes[1]), core::human_bytes(x.bytes[2]),
                    core::human_bytes(budgeted_bytes(f.memory, f.options.tiers)), seconds_text(f.step_s),
                    core::human_bytes(f.traffic.read), core::human_bytes(f.traffic.written),
                    f.fits ? (ladder.chosen == i ? "fits, the cheapest that does"
                              : fastest == i     ? "fits, the fastest"
                                                 : "fits")
                           : core::human_bytes(f.missing) + " missing"});
  }
  std::string out = aligned(rows, {false, true, true, true, true, true, true, true, false});
  if (ladder.chosen || !ladder.smallest) return out;
  const auto& least = ladder.rungs[*ladder.smallest];
  const uint64_t each = budgeted_bytes(least.found.memory, least.found.options.tiers);
  out += "nothing fits: the largest unit is " + ladder.largest_unit + " with " +
         core::human_bytes(ladder.largest_unit_bytes) + " of parameters, which must be whole when it is used; ";
  if (request.limits.device > 0)
    out += "the least that works is " + core::human_bytes(device_bytes(least.found.memory, least.found.options.tiers)) +
           " of the device's memory a rank, activations included, with " + least.name;
  else if (request.limits.states > 0)
    out += fmt::format("the smallest budget that works is {} bytes ({} for each of {} ranks), with {}",
                       each * request.options.ranks(), core::human_bytes(each), request.options.ranks(), least.name);
  else
    out += "the least that works is " + core::human_bytes(least.found.memory.total()) +
           " a rank, activations included, with " + least.name;
  return out + "\n";
}

std::string as_yaml(const fitted& chosen, const std::string& folder) {
  const auto& o = chosen.options;
  const auto& t = o.tiers;
  std::string out = fmt::format("zero_optimization:\n  stage: {}\n", o.stage);
  const auto line = [&](const char* key, uint64_t value) { out += fmt::format("  {}: {}\n", key, value); };
  line("reduce_bucket_size", o.gradients.reduce_bucket);
  if (t.swaps()) line("sub_group_size", o.updates.sub_group);
  if (o.stage == 3) {
    line("stage3_prefetch_bucket_size", o.gathering.prefetch_bucket);
    line("stage3_max_reuse_distance", o.gathering.max_reuse_distance);
    line("stage3_param_persistence_threshold", o.gathering.persistence_threshold);
  }
  const std::string path = ", nvme_path: " + quoted(folder);
  if (t.optimizer != tier::device) {
    out += std::string("  offload_optimizer: {device: ") + name_in_yaml(t.optimizer);
    if (t.optimizer == tier::nvme) {
      out += fmt::format("{}, buffer_count: {}, pipeline_read: {}, pipeline_write: {}", path, 4 * t.state_slots,
                         t.read_ahead ? "true" : "false", t.write_behind ? "true" : "false");
      if (o.stage == 3) out += ", ratio: " + core::text_of("%.10g", t.ratio);
    }
    out += "}\n";
  }
  if (t.parameters != tier::device) {
    out += std::string("  offload_param: {device: ") + name_in_yaml(t.parameters);
    if (t.parameters == tier::nvme)
      out += fmt::format("{}, buffer_count: {}, max_in_cpu: {}", path, t.parameter_slots, t.resident_parameters);
    out += "}\n";
  }
  if (t.activations != tier::device) out += "activation_checkpointing: {enabled: true}\n";
  if (t.swaps() || t.activations != tier::device) {
    out += "cluster:\n";
    out += std::string("  swap_gradients: ") + (t.swap_gradients ? "true" : "false") + "\n";
    if (t.activations != tier::device)
      out += std::string("  offload_activations: ") + name_in_yaml(t.activations) + "\n";
  }
  return out;
}

}  // namespace troupe::plan
