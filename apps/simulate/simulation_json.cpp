#include <nlohmann/json.hpp>

#include "apps/simulate/simulation_text.hpp"

namespace troupe::apps {
namespace {

using json_value = nlohmann::ordered_json;

double seconds_at(const sim::history& h, int64_t at_ns) { return double(at_ns - h.steps.front().began_ns) / 1e9; }

json_value parts_json(const step_parts& parts) {
  json_value out = json_value::object();
  for (size_t p = 0; p < num_step_parts; ++p) out[std::string(step_part_keys[p])] = parts[p];
  return out;
}

json_value outcome_json(const simulation& s, const simulated_outcome& x) {
  const auto& h = x.run.log();
  json_value steps = json_value::array();
  for (size_t i = 0; i < h.steps.size(); ++i)
    steps.push_back({{"step", i + 1},
                     {"seconds", double(h.steps[i].ended_ns - h.steps[i].began_ns) / 1e9},
                     {"saves", plan::saves(s.steps[i])},
                     {"ended_well", h.steps[i].failure == nullptr}});
  json_value ranks = json_value::array();
  for (const auto& rank : x.parts) ranks.push_back(parts_json(rank));
  json_value out{{"total_s", x.total_s}, {"step_s", nullptr}, {"parts", nullptr}};
  if (!x.parts.empty()) {
    out["step_s"] = x.step_s;
    out["parts"] = parts_json(mean_of(x.parts));
  }
  out["classes"] = x.classes;
  out["parts_of_ranks"] = std::move(ranks);
  out["steps"] = std::move(steps);
  out["warnings"] = h.warnings;
  return out;
}

json_value memory_json_of(const simulation& s) {
  json_value out = json_value::array();
  for (const auto& x : s.memory)
    out.push_back({{"owner", x.owner},
                   {"planned_bytes", x.planned_bytes},
                   {"peak_bytes", x.peak_bytes},
                   {"rank", x.rank},
                   {"at_s", x.peak_bytes > 0 ? seconds_at(s.healthy.run.log(), x.at_ns) : 0.0}});
  return out;
}

json_value traffic_json(const simulation& s) {
  json_value out = json_value::array();
  for (const auto& x : s.traffic)
    out.push_back({{"name", x.name},
                   {"groups", x.groups},
                   {"ranks", x.ranks},
                   {"hosts", x.hosts},
                   {"collectives", x.collectives},
                   {"bytes", x.bytes}});
  return out;
}

json_value card_json(const simulation& s) {
  const auto& card = *s.card;
  return {{"name", card.name},
          {"stack", card.stack},
          {"node_gpus", card.node_gpus},
          {"memory_bytes", card.memory_bytes},
          {"other_bytes", card.other_bytes ? json_value(*card.other_bytes) : json_value(nullptr)},
          {"fits", s.planned_bytes() + card.other_bytes.value_or(0) <= card.memory_bytes}};
}

json_value links_json(const network_use& on) {
  json_value out = json_value::array();
  for (const auto& x : on.busiest)
    out.push_back({{"from", x.from},
                   {"to", x.to},
                   {"bytes", x.bytes},
                   {"bytes_per_s", x.bytes_per_s},
                   {"busy_s", x.busy_s},
                   {"oversubscribed", x.is_limited}});
  return out;
}

json_value faults_json(const simulation& s) {
  const auto& h = s.faulty->run.log();
  json_value sentences = json_value::array();
  for (size_t i = 0; i < s.faults.size(); ++i) {
    json_value one{{"fault", s.faults[i].text}, {"happened", h.faults[i].happened}, {"at_s", nullptr}};
    if (h.faults[i].happened) one["at_s"] = seconds_at(h, h.faults[i].at_ns);
    sentences.push_back(std::move(one));
  }
  json_value out = outcome_json(s, *s.faulty);
  out["sentences"] = std::move(sentences);
  out["more_s"] = nullptr;
  out["failure"] = nullptr;
  if (s.loss)
    out["failure"] = {{"error", h.steps.back().failure->text},
                      {"step", s.loss->failed_step},
                      {"noticed_after_s", s.loss->noticed_after_s},
                      {"resumed_behind_step", s.loss->resumed_behind},
                      {"lost_s", s.loss->lost_s}};
  else
    out["more_s"] = s.faulty->total_s - s.healthy.total_s;
  return out;
}

}  // namespace

std::string simulation_as_json(const simulation& s) {
  json_value out{{"format", "troupe simulation"},
                 {"version", 1},
                 {"ranks", s.ranks},
                 {"hosts", s.hosts},
                 {"seed", s.healthy.run.log().seed},
                 {"predicted_step_s", s.predicted_s ? json_value(*s.predicted_s) : json_value(nullptr)},
                 {"model_flops", s.model_flops},
                 {"peak_flops_per_s", s.peak_flops_per_s},
                 {"mfu", s.mfu()},
                 {"rates",
                  {{"flops_per_s", s.costs.flops_per_s},
                   {"copy_bytes_per_s", s.costs.copy_bytes_per_s},
                   {"disk_read_bytes_per_s", s.costs.disk_read_bytes_per_s},
                   {"disk_write_bytes_per_s", s.costs.disk_bytes_per_s},
                   {"latency_s", s.costs.latency_s}}},
                 {"run", outcome_json(s, s.healthy)},
                 {"collectives", traffic_json(s)},
                 {"memory", memory_json_of(s)}};
  if (s.card) out["card"] = card_json(s);
  if (s.network) {
    out["network"] = {{"name", s.network->name}, {"nodes", s.network->nodes}, {"devices", s.network->devices}};
    out["links"] = links_json(*s.network);
  }
  if (s.faulty) out["faults"] = faults_json(s);
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps
