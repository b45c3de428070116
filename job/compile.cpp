#include "job/compile.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include <algorithm>

#include "config/sections/unit_passes.hpp"
#include "core/text.hpp"
#include "job/missed_budget.hpp"

namespace troupe::job {
namespace {

plan::memory_limits limits_of(const config::job_config& c) {
  const uint64_t ranks = std::max(1U, c.parallel.ranks());
  return {c.host_memory_budget / ranks, c.compile.memory_budget / ranks, c.cuda.memory_limit / ranks};
}

core::error at(const pass_wish& wish, const core::error& e) { return wish.where.empty() ? e : e.in(wish.where); }

void take_automatic(plan::compile_request& request) {
  request.passes.clear();
  for (const auto& x : plan::option_passes())
    if (x.keeps_bits) request.passes.emplace_back(x.name);
}

}  // namespace

pass_wish wish_of(const config::job_config& config, const config::compile_entry& entry) {
  pass_wish out{entry.passes, {}, config.compile.is_automatic(), entry.where};
  std::erase_if(out.passes, config::changes_units);
  return out;
}

std::vector<std::string> unit_passes_of(const config::job_config& c, const std::vector<std::string>& automatic) {
  const auto entries = c.compile.entries();
  if (c.compile.is_automatic()) return automatic;
  std::vector<std::string> out;
  for (const auto& name : entries.empty() ? std::vector<std::string>() : entries.front().passes)
    if (config::changes_units(name)) out.push_back(name);
  return out;
}

std::string idle_unit_passes(const config::job_config& c) {
  std::string out;
  for (const auto& name : unit_passes_of(c, {}))
    out += "pass " + name + ": nothing to change: the layers of a published family are already Troupe's own\n";
  return out;
}

core::result<plan::compiled_step> compile_step(const config::job_config& c,
                                               std::shared_ptr<const core::model_table> table,
                                               const plan::plan_options& base, const pass_wish& wish,
                                               const plan::cost_model& costs, choice_time when,
                                               const std::function<core::result<void>()>& go_on) {
  plan::compile_request request{
      std::move(table), base, wish.passes, limits_of(c), when == choice_time::before_a_run, costs, go_on};
  request.base.passes = wish.own;
  if (const auto x = std::ranges::find_if(wish.passes, config::changes_units); x != wish.passes.end())
    return core::fail(at(wish, {core::error_kind::bad_input,
                                "passes between two steps: wanted no pass that changes a host's units, which are fixed "
                                "when the session opens, got " +
                                    *x}));
  const auto entries = c.compile.entries();
  const auto x = std::ranges::find_if(wish.passes, config::places_states);
  if (when == choice_time::between_steps && x != wish.passes.end() &&
      (entries.empty() || std::ranges::count(entries.front().passes, *x) == 0))
    return core::fail(at(wish, {core::error_kind::bad_input,
                                "passes between two steps: wanted no pass that chooses where states are stored, which "
                                "is fixed for the whole run, got " +
                                    *x}));
  if (const auto order = plan::in_order(plan::passes_of(request.base)); !order)
    return core::fail(at(wish, order.error()));
  if (wish.is_automatic) take_automatic(request);
  auto out = plan::compile(request);
  if (!out) return core::fail(at(wish, out.error()));
  if (out->chosen.fits) return out;
  const uint64_t ranks = c.parallel.ranks();
  const auto missed = missed_budget_of(c, request.limits, out->chosen);
  return core::fail(at(wish, {core::error_kind::bad_input,
                              fmt::format("{}: wanted at least {} bytes for {} ranks with these passes, got {}",
                                          missed.key, missed.needed, ranks, missed.given)}));
}

core::result<uint64_t> least_memory_budget(const config::job_config& c, std::shared_ptr<const core::model_table> table,
                                           const plan::plan_options& base, const plan::cost_model& costs,
                                           const std::function<core::result<void>()>& go_on) {
  const auto wish = wish_of(c, c.compile.entries().front());
  plan::compile_request request{std::move(table), base, wish.passes, {.total = 1}, true, costs, go_on};
  if (wish.is_automatic) take_automatic(request);
  const auto least = plan::compile(request);
  if (!least) return core::fail(at(wish, least.error()));
  return least->chosen.memory.total() * c.parallel.ranks();
}

void take_passes(const plan::plan_options& chosen, plan::plan_options& options) {
  options.passes = chosen.passes;
  options.recompute = chosen.recompute;
  options.kept_units = chosen.kept_units;
  options.light_before = chosen.light_before;
  options.overlap_exchanges = chosen.overlap_exchanges;
  options.exchange_pieces = chosen.exchange_pieces;
  options.gathering = chosen.gathering;
  options.gradients.reduce_bucket = chosen.gradients.reduce_bucket;
  options.gradients.buckets_follow_units = chosen.gradients.buckets_follow_units;
  options.tiers.activation_units = chosen.tiers.activation_units;
}

std::string passes_as_text(const plan::compiled_step& x) {
  using core::human_bytes;
  std::string out =
      core::text_of("predicted step %.1f ms -> %.1f ms, a rank's memory ", 1e3 * x.base.step_s, 1e3 * x.chosen.step_s) +
      human_bytes(x.base.memory.total()) + " -> " + human_bytes(x.chosen.memory.total()) +
      (x.base.fits ? "\n" : " (without them it does not fit)\n");
  const auto named = [](const std::string& name) { return core::text_of("  %-20s", name.c_str()); };
  for (const auto& gain : x.gains) {
    if (gain.change.empty()) continue;
    const auto bytes = static_cast<uint64_t>(std::abs(gain.saved_bytes));
    out += named(gain.pass) + gain.change + core::text_of(": %+.1f ms, ", -1e3 * gain.saved_s) +
           (gain.saved_bytes > 0 ? "-" : "+") + human_bytes(bytes) + "\n";
  }
  for (const auto& own : x.chosen.options.passes) out += named(own->name) + "of this program\n";
  return out;
}

}  // namespace troupe::job
