#include "actors/run/run_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/host_thread.hpp"
#include "actors/run/training_run.hpp"
#include "config/explain.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"
#include "plan/choose/profile.hpp"
#include "plan/memory_places.hpp"
#include "plan/stage_place.hpp"

namespace troupe::actors {
namespace {

std::filesystem::path monitor_folder(const config::monitor_section& m, const std::filesystem::path& output) {
  return (m.output_path.empty() ? output : m.output_path) / m.job_name;
}

// True if `path` is below `folder`: a run that resumes from a checkpoint in its own output folder continues the curves
// there; with a checkpoint from elsewhere it is a new run.
bool lies_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code e;
  const auto inner = std::filesystem::weakly_canonical(path, e), outer = std::filesystem::weakly_canonical(folder, e);
  return !e && std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Returns the run as other programs show it: `name`, or the name of the configuration file, and its settings.
telemetry::tracked_run tracked(const config::job_config& c, const std::string& name) {
  telemetry::tracked_run out;
  out.name = !name.empty() ? name : c.file.empty() ? "run" : c.file.stem().string();
  for (auto& s : config::listed_settings(c))
    out.settings.push_back({std::move(s.key), std::move(s.value), s.is_default});
  return out;
}

/// Returns the number of parameters that a rank holds between steps, on the rank that holds the most.
uint64_t parameters_per_rank(const job::step_plans& plans) {
  const auto& l = plans.layout();
  uint64_t most = 0;
  for (const auto& p : plans.plans()) {
    uint64_t held = p->offsets.shard_elements;
    if (l.options.stage < 3) {
      held = 0;
      for (uint32_t q = 0; q < l.pipeline_of.size(); ++q)
        if (l.holds(p->rank, q)) held += l.table->parameters[q].numel();
    }
    most = std::max(most, held);
  }
  return most;
}

/// True if a profile of the model's units is written at the end of the run; by default only if the run's folder has
/// none yet.
bool keeps_profile(const job::blueprint& plan) {
  const auto& c = *plan.config;
  if (c.output.empty()) return false;
  if (c.pipeline.profile == config::profile_choice::always) return true;
  return c.pipeline.profile == config::profile_choice::automatic && plan.pipeline.is_cut() &&
         plan.pipeline.profile.empty();
}

telemetry::recorder_options recorder_options_of(const job::blueprint& plan, bool tokens_are_bytes) {
  const auto& c = *plan.config;
  telemetry::recorder_options o;
  o.curves.run = c.output;
  if (c.csv_monitor.enabled) o.curves.csv_folder = monitor_folder(c.csv_monitor, c.output);
  if (c.tensorboard.enabled) o.curves.events_folder = monitor_folder(c.tensorboard, c.output);
  if (c.telemetry.json_lines) o.curves.json_lines_file = c.output / "steps.jsonl";
  if (c.mlflow.enabled)
    o.curves.mlflow =
        telemetry::mlflow_options{(c.mlflow.output_path.empty() ? c.output : c.mlflow.output_path) / "mlruns",
                                  c.mlflow.experiment, c.output, tracked(c, c.mlflow.run_name)};
  if (c.wandb.enabled)
    o.curves.wandb =
        telemetry::wandb_options{c.output / "wandb", c.wandb.project, c.wandb.group, c.wandb.team, tracked(c, "")};
  for (const auto& set : c.data.validation) o.curves.validation_sets.push_back(set.name);
  o.labels.loss_scale = c.fp16.enabled;
  o.labels.breakdown = c.wall_clock_breakdown;
  o.report = c.telemetry.report && !c.output.empty();
  o.report_step = c.telemetry.trace_from_step + std::min<uint64_t>(1, c.telemetry.trace_steps / 2);
  o.communication = c.comms_logger.enabled;
  o.communication_verbose = c.comms_logger.verbose;
  o.collectives = {c.comms_logger.prof_all, c.comms_logger.prof_ops, c.comms_logger.debug};
  const auto& flops = c.flops_profiler;
  if (flops.enabled)
    o.flops = {flops.profile_step, flops.recompute_fwd_factor, flops.module_depth, flops.top_modules, flops.detailed};
  if (c.wall_clock_breakdown) o.print_every = print_interval(c);
  o.profile = keeps_profile(plan);
  const auto& layout = plan.train.layout();
  auto& f = o.facts;
  f.name = c.file.empty() ? "run" : c.file.stem().string();
  f.loss_unit = tokens_are_bytes ? "nats/byte" : "nats/token";
  f.parameter_dtype = core::name_of(c.parameter_dtype());
  f.zero_stage = layout.options.stage;
  f.ranks = layout.options.ranks();
  f.parameters = plan.table->numel();
  f.pipeline = layout.options.mesh.degree(core::axis::pipeline);
  f.mesh = layout.options.mesh.text();
  f.parameters_per_rank = parameters_per_rank(plan.train);
  f.steps = c.steps;
  f.micro_batch = c.train_micro_batch_size_per_gpu;
  f.accumulation = layout.options.accumulation;
  f.sequence = plan.sequence;
  return o;
}

}  // namespace

uint64_t print_interval(const config::job_config& c) {
  return c.steps_per_print > 0 ? c.steps_per_print : std::max<uint64_t>(1, c.steps / 40);
}

telemetry_setup run_recorder::make_telemetry() {
  const auto& c = *run_.term->plan.config;
  auto options = recorder_options_of(run_.term->plan, run_.data.tokens_are_bytes());
  options.facts.host_layers = run_.modules.layers;
  telemetry_setup out;
  out.log = options.log = [box = run_.host.lines](const std::string& line) { box->put(line); };
  options.warn = run_.host.put_warning();
  out.complain = [box = run_.host.warnings](const core::error& e) { box->put(e.text); };
  out.home = c.output;
  if (c.telemetry.traces(c.steps) && !c.output.empty()) out.trace_file = c.output / "trace.json";
  out.from_step = c.telemetry.trace_from_step;
  out.steps = c.telemetry.trace_steps;
  if (options.report) out.report_file = c.output / "report.html";
  if (options.communication && !c.output.empty()) out.communication_file = c.output / "communication.json";
  out.flops_file = c.flops_profiler.output_file;
  if (keeps_profile(run_.term->plan)) out.profile_file = c.output / plan::profile_file_name;
  out.recorder = recorder_ = std::make_shared<telemetry::recorder>(std::move(options));
  return out;
}

core::result<void> run_recorder::open() {
  if (is_open_) return {};
  const auto& c = *run_.term->plan.config;
  const auto homeless = [&](const auto& m) { return m.enabled && m.output_path.empty(); };
  if (c.output.empty() && (homeless(c.tensorboard) || homeless(c.csv_monitor) || homeless(c.mlflow) ||
                           c.wandb.enabled || c.telemetry.json_lines))
    return core::fail(core::error_kind::bad_input,
                      "telemetry: curves are configured without a folder for them; set output");
  const auto& flops = c.flops_profiler;
  std::error_code e;
  if (flops.enabled && !flops.output_file.empty() &&
      (!std::filesystem::is_directory(flops.output_file.parent_path(), e) ||
       std::filesystem::is_directory(flops.output_file, e)))
    return core::fail(core::error_kind::bad_input, "flops_profiler.output_file: cannot write " +
                                                       flops.output_file.string() +
                                                       ": its folder must exist, and it must not be a folder itself");
  std::optional<uint64_t> continues_after;
  // A process that has become the leading one after a loss continues the curves of the lost process.
  const bool took_over = run_.others->counts().terms > 0;
  if (run_.progress.steps > 0 && !c.output.empty() && (took_over || lies_below(resumed_from_, c.output)))
    continues_after = run_.term->loader.shape.samples_before(run_.progress.steps);
  TROUPE_TRY(recorder_->open(core::unix_seconds(), continues_after, took_over));
  is_open_ = true;
  if (flops.enabled && flops.profile_step >= c.steps)
    run_.host.warnings->put(
        fmt::format("flops_profiler.profile_step: {} is not reached in a run of {} steps (the first is 0): no profile",
                    flops.profile_step, c.steps));
  log_memory("before the first step");
  run_.host.deliver();
  return {};
}

void run_recorder::continue_curves_of(const std::filesystem::path& path) {
  if (!is_open_) resumed_from_ = path;
}

std::vector<telemetry::memory_row> run_recorder::memory_rows() const {
  std::vector<telemetry::memory_row> out;
  for (uint32_t r = 0; r < run_.term->memory.ranks.size(); ++r) {
    const auto& p = run_.term->memory.ranks[r]->plan();
    const auto& tiers = p.options().tiers;
    auto resident = run_.term->memory.ranks[r]->resident();
    resident.activations = run_.peak_bytes(r);
    const auto owners = plan::owners_of(resident, tiers);
    const auto add = [&](const char* tier, auto&& belongs) {
      telemetry::memory_row row{r, tier, {}, plan::stages_text(*p.layout, r)};
      for (const auto& x : owners) {
        // true: the bytes are a measured peak
        const bool is_peak = x.is == plan::owner_bytes::amount::predicted;
        row.owners.emplace_back(std::string(x.owner) + (is_peak ? ", peak" : ""), belongs(x) ? x.bytes : 0);
      }
      out.push_back(std::move(row));
    };
    if (tiers.apart) add("device", [](const plan::owner_bytes& x) { return x.lies == plan::tier::device; });
    add("host", [&](const plan::owner_bytes& x) { return !tiers.apart || x.lies != plan::tier::device; });
  }
  return out;
}

void run_recorder::log_memory(const std::string& when) {
  if (!run_.term->plan.config->memory_breakdown) return;
  run_.host.lines->put_lines(telemetry::memory_breakdown(when, memory_rows(), telemetry::process_resident_bytes()));
}

void run_recorder::record(const step_report& r, std::shared_ptr<const std::vector<telemetry::rank_spans>> spans) {
  if (is_closed_) return;
  send_metrics();
  auto v = std::make_shared<telemetry::step_values>();
  v->step = r.step;
  v->samples = r.tokens / run_.term->plan.sequence;
  v->global_samples = run_.term->loader.shape.samples_before(r.step);
  v->tokens = r.tokens;
  v->unix_s = core::unix_seconds();
  v->seconds = r.seconds;
  v->loss = r.loss;
  v->lr = r.lr;
  v->grad_norm = r.grad_norm;
  v->loss_scale = r.loss_scale;
  v->skipped = r.skipped;
  for (uint32_t rank = 0; rank < run_.term->memory.ranks.size(); ++rank)
    v->memory_bytes += run_.term->memory.ranks[rank]->resident().total() + run_.peak_bytes(rank);
  v->step_s = r.lanes.step_s;
  v->compute_s = r.lanes.compute_s;
  v->communication_s = r.lanes.communication_s;
  v->exposed_s = r.lanes.exposed_s;
  v->control_idle_s = r.lanes.control.idle_s;
  step_seconds_ += r.seconds;
  if (r.step == 1) log_memory("after the first step");
  if (auto place = queue_.admit()) {
    last_step_ = place;
    post(run_.term->members->telemetry, record_step{std::move(v), std::move(spans), std::move(place)});
  }
}

core::result<void> run_recorder::record_metric(std::string_view name, double value) {
  if (!run_.others->leads())
    return core::refused("record: this process does not lead the job; only the leading process writes curves");
  if (is_closed_) return core::refused("record: the records of the run have ended, because finish was called");
  if (!telemetry::is_metric_name(name))
    return core::refused(
        fmt::format("record: wanted a name of 1 to {} letters, digits, '_', '-' and '.' that begins "
                    "with a letter or digit, got '{}'",
                    telemetry::metric_name_bytes_max, core::shown(name)));
  if (!metric_names_.contains(name)) {
    if (metric_names_.size() == telemetry::metrics_max)
      return core::fail(
          core::error_kind::limit,
          fmt::format("record: wanted at most {} names in a run, got '{}' besides", telemetry::metrics_max, name));
    metric_names_.emplace(name);
  }
  const uint64_t step = run_.progress.steps;
  if (metrics_at_.step != step) send_metrics();
  if (metrics_at_.step != step) metrics_.clear();  // the curves are not open: those of an earlier step have no file
  metrics_at_.step = step;
  metrics_at_.global_samples = step > 0 ? run_.term->loader.shape.samples_before(step) : 0;
  metrics_.insert_or_assign(std::string(name), value);
  return {};
}

void run_recorder::send_metrics() {
  if (metrics_.empty() || !is_open_ || is_closed_) return;
  auto v = std::make_shared<telemetry::metric_values>(metrics_at_);
  v->unix_s = core::unix_seconds();
  v->values.assign(metrics_.begin(), metrics_.end());
  metrics_.clear();
  if (auto place = queue_.admit()) post(run_.term->members->telemetry, record_metrics{std::move(v), std::move(place)});
}

void run_recorder::go_back() {
  last_validation_.reset();
  if (metrics_at_.step > run_.progress.steps) metrics_.clear();
  if (!is_open_ || is_closed_) return;
  post(run_.term->members->telemetry,
       actors::go_back{run_.progress.steps,
                       run_.progress.steps > 0 ? run_.term->loader.shape.samples_before(run_.progress.steps) : 0});
}

void run_recorder::record_loss(double loss, const std::string& set, bool is_first) {
  auto v = std::make_shared<telemetry::validation_values>();
  *v = {run_.progress.steps,
        run_.term->loader.shape.samples_before(run_.progress.steps),
        loss,
        core::unix_seconds(),
        set,
        is_first};
  if (is_first) last_validation_ = v;
  if (!is_open_ || is_closed_) return;
  if (auto place = queue_.admit())
    post(run_.term->members->telemetry, record_validation{std::move(v), std::move(place)});
}

session_records run_recorder::finish(session_ending ending) {
  session_records out;
  if (!is_open_ || is_closed_ || !run_.term->members) return out;
  send_metrics();
  is_closed_ = true;
  auto end = std::make_shared<telemetry::run_end>();
  const auto failure = ending.failure ? ending.failure : run_.over.why;
  end->verdict = failure && failure->kind != core::error_kind::stopped            ? telemetry::verdict::failed
                 : failure || run_.progress.steps < run_.term->plan.config->steps ? telemetry::verdict::stopped
                                                                                  : telemetry::verdict::done;
  if (end->verdict == telemetry::verdict::failed) end->failure = failure->text;
  end->seconds = ending.seconds.value_or(step_seconds_);
  if (last_validation_ && last_validation_->step == run_.progress.steps) end->validation_loss = last_validation_->loss;
  end->memory = memory_rows();
  end->left_out = run_.spikes.left_out_lines();
  end->process_peak_bytes = telemetry::process_peak_bytes();
  end->configuration = std::move(ending.configuration);
  end->sample = std::move(ending.sample);
  out.num_dropped = queue_.num_dropped();
  const host_caller self(*run_.home.system);
  self->request(run_.term->members->telemetry, closing_patience, close_records{std::move(end), out.num_dropped})
      .receive(
          [&](const records_closed& m) {
            out.communication_table = m.records->communication_table;
            out.curves_complete = m.records->curves_complete;
            out.pipeline = m.records->pipeline;
            if (m.records->report_written) out.report_file = run_.term->plan.config->output / "report.html";
          },
          [&](caf::error&) {
            out.curves_complete = false;
            run_.host.warnings->put(fmt::format(
                "telemetry: the writers did not end within {} s; the report and what was recorded last may be missing",
                closing_patience.count()));
          });
  log_memory("at the end");
  if (out.num_dropped > 0)
    run_.host.warnings->put(
        fmt::format("telemetry: {} records were dropped because the writers fell behind (limit: {} under way)",
                    out.num_dropped, record_queue_limit));
  if (const auto slow = run_.others->slow_links_of_run(); !slow.empty()) run_.host.warnings->put(slow);
  if (!out.curves_complete)
    run_.host.warnings->put("telemetry: the curves are not complete, some could not be written");
  run_.host.deliver();
  return out;
}

}  // namespace troupe::actors
