#include "apps/plan/show_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/plan/open_degrees.hpp"
#include "apps/plan/plan_costs.hpp"
#include "apps/plan/plan_fit.hpp"
#include "apps/plan/plan_parts.hpp"
#include "apps/plan/show_cost.hpp"
#include "core/math.hpp"
#include "core/text.hpp"
#include "job/blueprint.hpp"
#include "job/model/adapters.hpp"
#include "models/table/row_tiles.hpp"
#include "plan/choose/cost.hpp"
#include "plan/choose/live_parameters.hpp"
#include "plan/generate/explain.hpp"
#include "plan/show/render.hpp"
#include "plan/show/swap_summary.hpp"
#include "plan/stages.hpp"
#include "storage/files/atomic_file.hpp"
#include "telemetry/figures/overlap_figures.hpp"

namespace troupe::apps {
namespace {

/// The plans that are shown: the plans of all ranks or, with many ranks, one plan for each class of equal ranks. The
/// class of the requested rank is represented by that rank's own plan.
struct shown_plans {
  std::vector<std::shared_ptr<const plan::rank_plan>> plans;
  std::vector<uint32_t> stands_for;
  uint32_t mine = 0;  ///< index in `plans` of the requested rank's plan

  [[nodiscard]] plan::timeline predicted(const plan::cost_model& costs) const {
    return plan::predict(plans, costs, stands_for);
  }
};

core::result<shown_plans> plans_to_show(const job::step_plans& all, uint32_t rank) {
  shown_plans out;
  if (all.ranks() <= job::proved_ranks_max) {
    TROUPE_ASSIGN(auto every, all.all());
    out.plans = std::move(every);
    out.stands_for.assign(out.plans.size(), 1);
    out.mine = rank;
    return out;
  }
  for (const auto& c : all.classes()) {
    const bool mine = std::ranges::binary_search(c.ranks, rank);
    if (mine) out.mine = static_cast<uint32_t>(out.plans.size());
    TROUPE_ASSIGN(auto made, all.of(mine ? rank : c.representative()));
    out.plans.push_back(std::move(made));
    out.stands_for.push_back(static_cast<uint32_t>(c.ranks.size()));
  }
  return out;
}

/// Prints the bytes, staging memory and time that a checkpoint adds to the step in which it is saved.
void show_saving(const shown_plans& saving, const shown_plans& training, const plan::cost_model& costs) {
  const auto timeline = saving.predicted(costs);
  uint64_t bytes = 0;
  double written_s = 0;
  for (size_t i = 0; i < saving.plans.size(); ++i) {
    for (const auto& x : saving.plans[i]->snapshots) bytes += x.bytes * saving.stands_for[i];
    for (uint32_t id : saving.plans[i]->lanes[static_cast<size_t>(plan::lane::writer)])
      written_s = std::max(written_s, timeline.ranks[i].instructions[id].end_s);
  }
  std::printf(
      "a checkpoint: %s of all ranks through %s of staging on this one; predicted %.1f ms more in its step, %s\n",
      core::human_bytes(bytes).c_str(), core::human_bytes(saving.plans[saving.mine]->memory.staging).c_str(),
      1e3 * std::max(0.0, timeline.step_s - training.predicted(costs).step_s),
      written_s <= timeline.step_s ? "written before the step ends" : "written after the step's end");
}

/// Prints the number and memory of a segment's row tiles, and the memory of its activations without tiles, which have
/// `elements` elements per row.
void show_tiles_of(const job::blueprint& b, const core::segment_info& s, const char* name, const char* of,
                   uint64_t elements) {
  const auto& c = *b.config;
  const uint64_t rows = c.train_micro_batch_size_per_gpu * b.tensor.sequence.most_columns(b.sequence);
  std::printf("%s: %llu tiles of at most %llu rows, %s besides what is kept; in one piece %s %s\n", name,
              static_cast<unsigned long long>(core::div_up(rows, s.tile_rows)),
              static_cast<unsigned long long>(s.tile_rows), core::human_bytes(s.tile_bytes).c_str(), of,
              core::human_bytes(rows * elements * core::size_of(c.parameter_dtype())).c_str());
}

/// Prints the row tiles of the head (cluster.row_tile_bytes) and of the largest MLP (cluster.mlp_tile_bytes).
void show_row_tiles(const job::blueprint& b) {
  const auto& head = b.table->units.back().segments.back();
  if (head.is_tiled()) show_tiles_of(b, head, "the head", "its logits are", b.spec.vocabulary);
  const core::segment_info* mlp = nullptr;  // the tiled segment with the largest tiles
  for (size_t u = 1; u + 1 < b.table->units.size(); ++u)
    for (const auto& s : b.table->units[u].segments)
      if (s.is_tiled() && (mlp == nullptr || s.tile_bytes > mlp->tile_bytes)) mlp = &s;
  if (mlp == nullptr) return;
  const uint64_t of_token = b.spec.family->mlp_inputs() * models::widest_inner(b.spec, b.tensor.split);
  show_tiles_of(b, *mlp, "each MLP", "the input of its activation is", of_token);
}

/// Returns the interval of the predicted step; nullopt by other rates than kept constants of this machine, and for
/// plans with so many instructions that predicting them for each constant would take long.
std::optional<job::predicted_interval> interval_of_step(const shown_plans& shown, const chosen_costs& by) {
  constexpr size_t most_instructions = 200'000;
  size_t instructions = 0;
  for (const auto& p : shown.plans) instructions += p->instructions.size();
  if (!by.spread || instructions > most_instructions) return std::nullopt;
  return job::interval_of([&](const plan::cost_model& c) { return shown.predicted(c).step_s; }, by.costs, *by.spread);
}

void show_summary(const job::blueprint& b, const shown_plans& shown, const plan::timeline& timeline,
                  const plan::cost_model& costs, const std::string& source,
                  const std::optional<job::predicted_interval>& interval) {
  const auto& mine = *shown.plans[shown.mine];
  std::printf("%s", plan::memory_summary(timeline).c_str());
  if (b.pipeline.is_cut()) std::printf("%s%s", stages_summary(b).c_str(), moves_summary(b).c_str());
  if (b.tensor.split.degree > 1) std::printf("%s", tensor_summary(b).c_str());
  std::printf("%s", compression_summary(b).c_str());
  if (b.compiled) std::printf("passes: %s", job::passes_as_text(*b.compiled).c_str());
  std::printf("%s", job::idle_unit_passes(*b.config).c_str());
  show_row_tiles(b);
  const auto& t = timeline.ranks[shown.mine];
  std::printf("%zu instructions and %zu collectives a step on each rank; proved\n", mine.instructions.size(),
              mine.lanes[static_cast<size_t>(plan::lane::fabric)].size());
  std::printf("predicted step %.1f ms: compute %.1f ms, communication %.1f ms of which %.1f ms exposed\n",
              1e3 * timeline.step_s, 1e3 * t.compute_s, 1e3 * t.communication_s, 1e3 * t.exposed_s);
  if (const auto hidden = telemetry::overlap_line(telemetry::overlap_of(timeline)); !hidden.empty())
    std::printf("predicted to be %s\n", hidden.c_str());
  if (b.config->device != core::device_kind::cpu) {
    const bool assumed = costs.flops_per_s == plan::card_costs(b.config->parameter_dtype()).flops_per_s;
    std::printf("by %.1f TFLOP/s of products, %s, and of an A100 %.0f GB/s in its memory and %.0f GB/s to the host's\n",
                costs.flops_per_s / 1e12,
                assumed ? "half of an A100's (--measure takes those of this machine's GPU)" : "measured now",
                costs.device_bytes_per_s / 1e9, costs.link_bytes_per_s / 1e9);
  } else {
    std::printf("by %s\n", source.c_str());
    if (interval) std::printf("%s", interval_summary(*interval).c_str());
  }
  if (!b.early.note.empty()) std::printf("%s\n", b.early.note.c_str());
  if (const auto tiers = plan::tiers_as_text(timeline, shown.mine); !tiers.empty()) {
    std::printf("%s", tiers.c_str());
    if (mine.options().tiers.swaps()) std::printf("%s", efficiency_summary(b, costs).c_str());
  }
}

/// Prints the changes that each compiler pass made to a rank's plan, and returns the exit code.
int show_accounts(const job::blueprint& b, const plan::rank_plan& p, const plan_arguments& a) {
  const auto made = plan::explain(p.layout, p.rank);
  if (!made) return failed(made.error());
  std::printf("%s",
              (a.form == output_form::json ? plan::accounts_as_json : plan::accounts_as_table)(made->accounts).c_str());
  if (b.compiled && a.form != output_form::json) std::printf("passes: %s", job::passes_as_text(*b.compiled).c_str());
  return 0;
}

/// Returns the error of options that cannot be combined, or of an option without the one that it requires; null if
/// there is none.
const char* misfit(const plan_arguments& a) {
  if (a.form == output_form::json && (a.fit || a.estimate || a.format != "summary"))
    return "--json: cannot be combined with --fit, --estimate or --format; give it alone, or with --degrees, "
           "--layers or --explain";
  if (a.transfers && a.format != "schedule") return "--transfers: give --format schedule, too";
  return nullptr;
}

/// True if rates of the machine decide something in the plan itself, not only its predicted times.
bool follows_rates(const config::job_config& c) {
  return !c.open_degrees.empty() || c.compile.enabled || c.zero_optimization.swaps() ||
         c.offload_activations == config::offload_device::nvme;
}

/// Refuses options about the machine's rates if the output has no predicted times and the plan does not depend on
/// rates.
core::result<void> check_rates(const plan_arguments& a, const config::job_config& c) {
  std::vector<std::string> given;
  if (a.measure) given.emplace_back("--measure");
  if (a.disk_read_gb_per_s > 0) given.emplace_back("--disk-read");
  if (a.disk_write_gb_per_s > 0) given.emplace_back("--disk-write");
  const bool is_timeless = a.explain || a.format == "table" || a.format == "dot" || a.format == "schedule";
  const bool writes_times = !a.trace_file.empty() || !a.html_file.empty();
  const bool acts = !is_timeless || writes_times || follows_rates(c);
  return refuse_idle(given, {{acts,
                              "predicted times, or a plan that they decide (states in files, passes, degrees that are "
                              "auto), and what is shown has neither",
                              {"--measure", "--disk-read", "--disk-write"}},
                             {acts && (!a.estimate || writes_times || follows_rates(c)),
                              "predictions of what is written, and --estimate has none",
                              {"--disk-write"}}});
}

/// Returns the configuration with the first valid choice of the open degrees. `--fit` uses it, because a faster choice
/// can only be predicted for known tiers.
config::job_config of_some_degrees(const config::job_config& c) {
  const auto sound = std::ranges::find_if(c.open_degrees, [](const auto& way) { return way.refusal.empty(); });
  return sound == c.open_degrees.end() ? c : c.with(*sound);
}

}  // namespace

int show_plan(const plan_arguments& a, const job::product_meter& products) {
  if (const char* why = misfit(a); why != nullptr) {
    std::fprintf(stderr, "troupe: error: %s\n", why);
    return 2;
  }
  auto loaded = load_configuration(a, std::nullopt, intent::plan);
  if (!loaded) return 2;
  if (a.layers) return show_layers(loaded->config, a.form);
  if (a.fit) return show_fit(of_some_degrees(loaded->config), a, products);
  if (!a.degrees)
    if (const auto ok = check_rates(a, loaded->config); !ok) return failed(ok.error());
  const auto chosen = costs_of(loaded->config, a, products);
  if (!chosen) return failed(chosen.error());
  const auto& costs = chosen->costs;
  if (a.degrees) return show_degrees(*loaded, a, costs);
  if (const auto refused = take_predicted_degrees(*loaded, costs)) return *refused;
  auto b = job::make_blueprint(std::make_shared<const config::job_config>(loaded->config), {}, &costs);
  if (!b) return failed(b.error());
  if (a.rank >= b->train.ranks()) {
    std::fprintf(stderr, "troupe: error: --rank: wanted one below %u, got %u\n", b->train.ranks(), a.rank);
    return 2;
  }
  const auto training = plans_to_show(b->train, a.rank);
  if (!training) return failed(training.error());
  shown_plans saving;
  const auto& checkpoint = loaded->config.checkpoint;
  // A job of several processes keeps its states in their memory, through the same staging.
  if (const bool saves = checkpoint.is_on() || checkpoint.memory.every_steps > 0 || a.saving; saves) {
    auto written = b->write(plan::plan_choice::train_saving);
    if (!written) return failed(written.error());
    auto to_show = plans_to_show(*written, a.rank);
    if (!to_show) return failed(to_show.error());
    saving = std::move(*to_show);
  }
  const auto& shown = a.saving ? saving : *training;
  const auto& mine = *shown.plans[shown.mine];
  const auto timeline = shown.predicted(costs);
  if (!a.trace_file.empty())
    if (auto ok = storage::write_file_atomically(a.trace_file, plan::as_perfetto(timeline)); !ok) {
      print_error_line("troupe: error: " + ok.error().text);
      return 1;
    }
  if (!a.html_file.empty()) {
    const auto page = plan_as_page(timeline, a.file, chosen->source);
    if (const auto ok = storage::write_file_atomically(a.html_file, page); !ok) return failed(ok.error());
  }
  if (a.explain) return show_accounts(*b, mine, a);
  if (a.explain_cost) return show_cost(mine, *a.explain_cost, costs, chosen->source, a.form);
  if (a.form == output_form::json) {
    std::optional<plan::timeline> saved;
    if (!saving.plans.empty() && !a.saving) saved = saving.predicted(costs);
    std::printf("%s", plan_as_json(*b, timeline, shown.mine, saved ? &*saved : nullptr, chosen->source,
                                   interval_of_step(shown, *chosen))
                          .c_str());
  } else if (a.estimate) {
    std::printf("%s", estimate_summary(*b, costs).c_str());
  } else if (a.format == "table") {
    std::printf("%s", plan::as_table(mine).c_str());
  } else if (a.format == "schedule") {
    std::printf("%s", schedule_as_csv(*b, a.transfers).c_str());
  } else if (a.format == "dot") {
    std::printf("%s", plan::as_dot(mine).c_str());
  } else if (a.format == "perfetto") {
    std::printf("%s", plan::as_perfetto(timeline).c_str());
  } else {
    show_summary(*b, shown, timeline, costs, chosen->source, interval_of_step(shown, *chosen));
    if (const auto adapters = job::adapters_sentence(*b->tensor.whole); !adapters.empty())
      std::printf("%s\n", adapters.c_str());
    if (const uint32_t end = mine.table().first_trained_unit(); end > plan::first_of_model(*mine.layout))
      std::printf("backward ends at %s: nothing before it is trained\n", mine.table().units[end].name.c_str());
    const auto machines = machines_summary(*b);
    if (!machines) return failed(machines.error());
    std::printf("%s", machines->c_str());
    if (!saving.plans.empty()) show_saving(saving, *training, costs);
    uint64_t all = 0;  // number of elements of all parameters, a teacher's included
    for (const auto& p : mine.table().parameters) all += p.is_copy() ? 0 : p.numel();
    if (mine.layout->gathers())
      std::printf("at most %llu of %llu parameters whole at once%s\n",
                  static_cast<unsigned long long>(plan::peak_live_parameters(mine)),
                  static_cast<unsigned long long>(all), plan::why_whole(mine).c_str());
  }
  return 0;
}

}  // namespace troupe::apps
