#include "actors/run/training_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/aten_threads.hpp"
#include "actors/calibrate.hpp"
#include "actors/host.hpp"
#include "actors/modules/host_run.hpp"
#include "actors/opening/memory_need.hpp"
#include "config/sections/step_counts.hpp"
#include "core/system/float_environment.hpp"
#include "device/backend.hpp"
#include "device/properties.hpp"
#include "job/compile.hpp"
#include "job/measured_costs.hpp"
#include "models/cuda/open.hpp"

namespace troupe::actors {
namespace {

/// Returns an error if `options` have a host program's own model and settings that cannot be combined with one.
core::result<void> check_sequence(const session_options& options) {
  const auto& parallel = options.config->parallel;
  const uint32_t degree = std::max(parallel.sequence, parallel.context);
  if (options.model == nullptr) return {};
  if (parallel.sharded_norms)
    return core::fail(core::error_kind::bad_input,
                      "parallel.sharded_norms: cannot be combined with a host program's own modules; set it to false");
  if (const uint64_t bytes = options.config->row_tile_bytes; bytes > 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("cluster.row_tile_bytes: cannot be combined with a host program's own modules, which "
                                  "compute their loss themselves; set it to 0, got {}",
                                  bytes));
  if (const uint64_t bytes = options.config->mlp_tile_bytes; bytes > 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("cluster.mlp_tile_bytes: cannot be combined with a host program's own modules, which "
                                  "compute their MLPs themselves; set it to 0, got {}",
                                  bytes));
  if (options.config->activation_checkpointing.selective)
    return core::fail(core::error_kind::bad_input,
                      "activation_checkpointing.selective: cannot be combined with a host program's own modules, whose "
                      "matrix products "
                      "Troupe does not compute; set it to false");
  if (config::has_other_counts(*options.config))
    return core::fail(core::error_kind::bad_input,
                      fmt::format("{}: cannot be combined with a host program's own modules yet, whose steps have "
                                  "equal numbers of micro-batches; remove the key",
                                  options.config->managed_gradient_accumulation ? "data.rampup_batch_size"
                                                                                : "managed_gradient_accumulation"));
  if (degree == 1) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("{}: cannot be combined with a host program's own modules yet; set it to 1, got {}",
                                parallel.context > 1 ? "parallel.context" : "parallel.sequence", degree));
}

/// Returns e.g. "device: cuda:0, NVIDIA H100; cuda.tf32; cuda.deterministic".
std::string gpu_line(device::device_id device, const config::cuda_section& asked) {
  return "device: " + name_of(device) + ", " + device::properties_of(device).name + (asked.tf32 ? "; cuda.tf32" : "") +
         (asked.deterministic ? "; cuda.deterministic" : "");
}

/// If the host program has its own model, makes its instances for the ranks, and the reports about its layers and
/// units.
core::result<void> prepare_modules(training_run& run, std::shared_ptr<const host_model> model,
                                   const config::job_config& config, opening_watch& watch) {
  auto& m = run.modules;
  m.model = std::move(model);
  if (m.model != nullptr) {
    TROUPE_TRY(watch.begin("making the host's model"));
    TROUPE_ASSIGN(auto prepared, prepare(m.model, config, &m.changes));
    m.instances = std::move(prepared);
    m.outputs = m.instances->outputs();
    m.layers = models::text_of(m.instances->layers());
    run.host.lines->put_lines(m.layers);
  } else {
    m.changes = job::idle_unit_passes(config);
  }
  run.host.lines->put_lines(m.changes);
  return {};
}

/// Makes and proves the plans. In a job of several processes this neither measures costs nor checks the memory: the
/// leading process does both whenever the job begins or goes on with other processes.
core::result<job::blueprint> first_plan(const training_run& run, const session_options& options, bool is_alone,
                                        opening_watch& watch) {
  TROUPE_TRY(watch.begin("writing and proving the plans"));
  const auto& config = options.config;
  const auto costs = is_alone
                         ? job::costs_of_run(*config, options.kept_costs, measured_matmul_flops, run.host.put_warning())
                         : job::usual_costs(*config);
  return job::make_blueprint(
      config, tables_of(run.modules), &costs,
      {[&] { return watch.go_on(); },
       [is_alone](const job::blueprint& b) { return is_alone ? check_memory(b) : core::result<void>(); }});
}

}  // namespace

core::result<std::unique_ptr<training_run>> training_run::open(const session_options& options,
                                                               const peers_maker& make_peers) {
  TROUPE_TRY(check_sequence(options));
  TROUPE_TRY(check_host_schedule(options.hooks, *options.config));
  TROUPE_TRY(models::take_linked_cuda());
  const device::device_id device = device_of(*options.config);
  TROUPE_TRY(device::check(device));
  if (options.system != nullptr) TROUPE_TRY(check_system(*options.system));
  const core::usual_float_environment numbers;
  const one_aten_thread alone;  // for a trial forward pass, and for rates of one-threaded lanes
  auto made = std::make_unique<training_run>();
  training_run& run = *made;
  if (device.kind == core::device_kind::cuda) {
    const auto& asked = options.config->cuda;
    TROUPE_ASSIGN(auto use,
                  models::cuda_use::begin(device, {.tf32 = asked.tf32, .deterministic = asked.deterministic}));
    run.on_gpu = std::move(use);
    run.host.lines->put(gpu_line(device, asked));
  }
  const bool is_alone = options.process == nullptr;
  opening_watch watch(options.hooks.on_opening);
  TROUPE_TRY(prepare_modules(run, options.model, *options.config, watch));
  TROUPE_ASSIGN(auto plan, first_plan(run, options, is_alone, watch));
  run.term = std::make_unique<run_term>(run, std::move(plan));
  if (is_alone) run.host.lines->put_lines(run.term->plan.early.note);
  run.host.hooks = options.hooks;
  if (!options.config->cluster.page.empty() && !options.serves_page)
    run.host.say(
        "cluster.page: has no effect, because a session of a program serves no page, which only `troupe train` does; "
        "its metrics are in the curves and the report");
  run.home.system = options.system;
  run.others = make_peers(run, options);
  TROUPE_TRY(run.terms.make_own_system());
  run.progress.scale = kernels::first_loss_scale(run.term->plan.loss_scale);
  TROUPE_TRY(watch.begin(reading_phase));
  TROUPE_TRY(run.data.open(run.term->plan, run.modules.model, !is_alone, options.hooks.on_reading, watch));
  TROUPE_TRY(run.others->begin(options, watch));
  return made;
}

training_run::~training_run() {
  host.hooks = {};  // the destructor calls no hook: the program may be in any state
  if (term == nullptr) return;
  (void)saves.end_saves();
  recorder.finish({});
  others->close_line();
  end_actors(*this, false);
  others->end();
}

core::result<void> training_run::sound() const {
  if (over.why) return core::fail(*over.why);
  if (term->memory.offloaded != nullptr)
    return core::fail(core::error_kind::bad_input,
                      "offload_states: the states are offloaded; call reload_states before anything that needs them");
  return {};
}

uint64_t training_run::peak_bytes(uint32_t rank) const {
  auto& ledger = *term->memory.ledger;
  return others->is_here(rank) ? ledger.peak_bytes(ledger.owner(rank)) : others->peak_bytes(rank);
}

std::vector<rank_memory_report> training_run::memory_reports() const {
  const auto& memory = term->memory;
  std::vector<rank_memory_report> out;
  for (uint32_t r = 0; r < memory.ranks.size(); ++r) {
    rank_memory_report one{memory.ranks[r]->resident(), peak_bytes(r)};
    one.tiers = memory.ranks[r]->plan().options().tiers;
    if (memory.offloaded != nullptr) one.offloaded_bytes = memory.offloaded->adjust(one.resident);
    out.push_back(one);
  }
  return out;
}

std::vector<rank_diagnosis> training_run::diagnose() const {
  std::vector<rank_diagnosis> out;
  const auto board = home.pulses.board();
  if (board == nullptr) return out;
  const auto pulses = board->look();
  for (uint32_t r = 0; r < board->ranks(); ++r) {
    static constexpr const char* names[] = {"waiting", "working", "asking"};
    auto lanes = board->explained(r);
    std::string doing = lanes.empty() ? "between runs" : names[static_cast<size_t>(pulses[r].doing)];
    out.push_back({r, std::move(doing), std::move(lanes)});
  }
  others->explain_waits(out);
  // Sorts ranks that do not wait to the front, because they hold up those that wait.
  std::ranges::stable_sort(out, {}, [](const rank_diagnosis& d) {
    return d.doing == "waiting" ? 1 : d.lanes.empty() ? 2 : 0;
  });
  return out;
}

}  // namespace troupe::actors
