// Chooses the parallel degrees that a configuration leaves open: runs a few steps of each of the combinations of
// degrees (ways) that the cost model predicts to be fastest. Owns which ways are tried, for how long and which steps
// count; job/degrees.hpp owns the list of ways and the choice.
#include <algorithm>
#include <limits>
#include <utility>

#include "actors/modules/host_run.hpp"
#include "actors/run/training_run.hpp"
#include "actors/session/session.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"
#include "job/degrees.hpp"

namespace troupe::actors {
namespace {

/// Limits of the trials: a combination of degrees is tried if its predicted step takes at most tried_spread times that
/// of the fastest one; at most tried_max of them are tried.
constexpr double tried_spread = 2;
constexpr size_t tried_max = 8;
/// Number of steps of a trial: first warm_steps, which are not measured because they set up state for later ones, then
/// at least least_steps and at most most_steps measured ones, until these have taken long_enough_s seconds.
constexpr uint64_t warm_steps = 2, least_steps = 3, most_steps = 40;
constexpr double long_enough_s = 0.3;
/// A trial ends early if its steps take this many times as long as those of the best combination so far.
constexpr double hopeless = 1.3;
/// Rounds of trials, so that other work on the machine at one moment has little influence: in each round, combinations
/// run whose measured step takes at most this many times that of the best so far.
constexpr double rounds[] = {std::numeric_limits<double>::infinity(), 1.5, 1.1};
/// Limit in seconds for opening and closing the sessions of all trials, without reading the texts, which the run needs
/// anyway. No trial begins if the limit would be exceeded in case it takes as long as the longest one so far.
constexpr double opening_seconds_max = 5;

/// Returns the job with the degrees `taken` of one combination, without the settings that would write files.
std::shared_ptr<const config::job_config> trial_of(const config::job_config& job, const config::degree_choice& taken) {
  config::job_config c = job.with(taken);
  c.telemetry.trace = c.telemetry.report = c.telemetry.json_lines = false;
  c.tensorboard.enabled = c.csv_monitor.enabled = c.comms_logger.enabled = c.flops_profiler.enabled = false;
  c.mlflow.enabled = c.wandb.enabled = false;
  c.wall_clock_breakdown = c.memory_breakdown = false;
  return std::make_shared<const config::job_config>(std::move(c));
}

/// Makes the host program's own model for each combination of degrees, from whose tables plans are made. Each
/// model exists until the next one is made.
class prepared_models {
 public:
  explicit prepared_models(std::shared_ptr<const host_model> model) : model_(std::move(model)) {}
  job::tables_for tables() {
    if (model_ == nullptr) return {};
    return [this](const config::job_config& c) -> core::result<job::host_tables> {
      TROUPE_ASSIGN(auto made, prepare(model_, c));
      last_ = std::move(made);
      return tables_of({.model = model_, .instances = last_});
    };
  }

 private:
  std::shared_ptr<const host_model> model_;
  std::shared_ptr<models::prepared_modules> last_;
};

/// The measured steps of one trial.
struct measured_steps {
  uint64_t count = 0;
  double least_s = std::numeric_limits<double>::infinity();
};

core::result<measured_steps> run_steps(session& s, double best_s) {
  measured_steps out;
  double all_s = 0;
  for (uint64_t i = 0; i < warm_steps; ++i) {
    TROUPE_ASSIGN(auto did, s.step());
    if (did.seconds > 10 * long_enough_s) break;  // after such a long step, set-up no longer matters
  }
  while (out.count < most_steps && (out.count < least_steps || all_s < long_enough_s)) {
    TROUPE_ASSIGN(auto did, s.step());
    all_s += did.seconds;
    ++out.count;
    out.least_s = std::min(out.least_s, did.seconds);
    if (out.least_s > hopeless * best_s) break;
  }
  return out;
}

}  // namespace

/// Measures steps of several combinations of degrees, each in a session of its own.
struct session::trials {
  const session_options& options;
  opening_watch& watch;
  /// tokenised training texts; read by the first trial and used by all others
  std::shared_ptr<const read_texts> texts;
  /// Seconds that opening and closing all trials' sessions took, the longest of these times, and seconds of all trials'
  /// steps. Reading the texts is not counted.
  double opening_s = 0, longest_opening_s = 0, steps_s = 0;
  double best_s = std::numeric_limits<double>::infinity();

  [[nodiscard]] bool may_open() const { return opening_s + longest_opening_s <= opening_seconds_max; }

  /// Tries the combinations with the fastest predictions one after the other, in rounds; only those near the best are
  /// tried again.
  core::result<void> run(job::degree_list& list) {
    std::vector<job::listed_way*> tried;
    const double fastest_s = list.ways[*list.chosen].predicted_s;
    for (auto& way : list.ways)
      if (way.runs() && way.predicted_s <= tried_spread * fastest_s) tried.push_back(&way);
    if (tried.size() == 1) return {};  // one candidate alone needs no measurement
    std::ranges::stable_sort(tried, {}, &job::listed_way::predicted_s);
    if (tried.size() > tried_max) tried.resize(tried_max);
    for (const double near : rounds)
      for (auto* way : tried) {
        if (!may_open() || !way->runs() || way->measured_s.value_or(0) > near * best_s) continue;
        TROUPE_TRY(attempt(*way));
      }
    return {};
  }

 private:
  /// Opens a session with one combination of degrees and measures its steps. If the session cannot be opened, stores
  /// the reason in `way` and returns success.
  core::result<void> attempt(job::listed_way& way) {
    const int64_t begin = core::now_ns();
    double reading_s = 0;
    auto opened = open_way(way, reading_s);
    if (!opened && opened.error().kind == core::error_kind::stopped) return core::fail(opened.error());
    if (!opened) {
      way.refusal = opened.error().text;
      return {};
    }
    auto& of = *(*opened)->run_;
    of.recorder.record_nothing();
    if (texts == nullptr && options.model == nullptr)
      texts = std::make_shared<const read_texts>(read_texts{of.data.tokenizer(), of.data.corpus()});
    const int64_t opened_ns = core::now_ns();
    const auto steps = run_steps(**opened, best_s);
    const int64_t ended_ns = core::now_ns();
    if (!steps) return core::fail(steps.error().in("trying " + way.degrees));
    opened->reset();
    steps_s += double(ended_ns - opened_ns) / 1e9;
    const double mine_s = double(opened_ns - begin) / 1e9 - reading_s + core::seconds_since(ended_ns);
    opening_s += mine_s;
    longest_opening_s = std::max(longest_opening_s, mine_s);
    way.measured_s = std::min(steps->least_s, way.measured_s.value_or(steps->least_s));
    way.measured_steps += steps->count;
    best_s = std::min(best_s, *way.measured_s);
    return watch.go_on();
  }

  core::result<std::unique_ptr<session>> open_way(const job::listed_way& way, double& reading_s) const {
    session_options trial{
        .config = trial_of(*options.config, way.choice), .system = options.system, .model = options.model};
    trial.texts = texts;
    trial.hooks.on_reading = options.hooks.on_reading;
    int64_t since_ns = 0;
    trial.hooks.on_opening = [&](const opening_progress& p) {
      const bool reads = p.phase == reading_phase;
      if (!reads && since_ns != 0) reading_s += core::seconds_since(std::exchange(since_ns, 0));
      if (reads && since_ns == 0) since_ns = core::now_ns();
      return !options.hooks.on_opening || options.hooks.on_opening({"trying " + way.degrees + ": " + p.phase, p.share});
    };
    return open(std::move(trial));
  }
};

core::result<run_degrees> session::choose_degrees(const session_options& options) {
  if (options.config == nullptr || options.config->open_degrees.empty())
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration with open degrees");
  const auto& c = *options.config;
  opening_watch watch(options.hooks.on_opening);
  TROUPE_TRY(watch.begin("comparing degrees"));
  prepared_models host(options.model);
  TROUPE_ASSIGN(auto list, job::list_degrees(c, host.tables(), nullptr, [&] { return watch.go_on(); }));
  run_degrees out;
  trials all{options, watch, options.texts};
  if (c.pipeline.profile != config::profile_choice::never && list.chosen && !list.is_measured()) {
    TROUPE_TRY(all.run(list));
    job::choose_fastest(list);
    if (list.is_measured()) out.file = job::write_degree_profile(job::profile_of(list));
  }
  TROUPE_ASSIGN(auto taken, job::chosen_degrees(list, c));
  out.taken = std::move(taken);
  out.config = std::make_shared<const config::job_config>(c.with(out.taken));
  out.texts = all.texts;
  out.reason = job::reason_of(list);
  if (!out.file.empty())
    out.reason += core::text_of(
        "; %d tried in %.1f s, %.1f s of it steps",
        static_cast<int>(std::ranges::count_if(list.ways, [](const auto& w) { return w.measured_s.has_value(); })),
        all.opening_s + all.steps_s, all.steps_s);
  out.table = job::degrees_as_table(list);
  return out;
}

}  // namespace troupe::actors
