// Choosing the degrees that a configuration leaves open: the ways that look fastest run a few steps each. Owns which
// ways are tried, for how long and what counts; the list and the choice are job/degrees.hpp's.
#include <algorithm>
#include <chrono>
#include <limits>

#include "actors/session/host_run.hpp"
#include "actors/session/parts.hpp"
#include "core/clock.hpp"
#include "job/degrees.hpp"

namespace troupe::actors {
namespace {

/// A way is tried where its predicted step is at most so many times that of the fastest, and at most so many are.
constexpr double tried_spread = 2;
constexpr size_t tried_max = 8;
/// Of a way: steps that pay for what later ones find in place, and those that count; more of them where they are short.
constexpr uint64_t warm_steps = 2, least_steps = 3, most_steps = 40;
constexpr double long_enough_s = 0.3;
/// A way that is this much slower than the best so far is not looked at any longer.
constexpr double hopeless = 1.3;
/// Ways this near the best run once more, so that a moment's other work on the machine decides nothing.
constexpr double too_near = 1.1;
/// What opening and closing sessions may take in all, beside reading the text, which the run needs anyway.
constexpr double opening_seconds_max = 4;

double seconds_since(int64_t ns) { return double(core::now_ns() - ns) / 1e9; }

/// The way's job without what it would leave behind.
std::shared_ptr<const config::job_config> trial_of(const config::job_config& job, const config::degree_choice& taken) {
  config::job_config c = job.with(taken);
  c.telemetry.trace = c.telemetry.report = c.telemetry.json_lines = false;
  c.tensorboard.enabled = c.csv_monitor.enabled = c.comms_logger.enabled = c.flops_profiler.enabled = false;
  c.wall_clock_breakdown = c.memory_breakdown = false;
  return std::make_shared<const config::job_config>(std::move(c));
}

/// Host models, made for each way's degrees; they live as long as the tables that are read from them.
class prepared_models {
 public:
  explicit prepared_models(std::shared_ptr<const host_model> model) : model_(std::move(model)) {}
  job::tables_for tables() {
    if (model_ == nullptr) return {};
    return [this](const config::job_config& c) -> core::result<job::host_tables> {
      auto made = prepare(model_, c);
      if (!made) return core::fail(made.error());
      last_ = std::move(*made);
      return job::host_tables{&last_->table(), &last_->own_table(), &last_->cut()};
    };
  }

 private:
  std::shared_ptr<const host_model> model_;
  std::shared_ptr<models::prepared_modules> last_;
};

/// The steps of one trial.
struct measured_steps {
  uint64_t count = 0;
  double least_s = std::numeric_limits<double>::infinity();
};

core::result<measured_steps> run_steps(session& s, double best_s) {
  measured_steps out;
  double all_s = 0;
  for (uint64_t i = 0; i < warm_steps; ++i) {
    auto did = s.step();
    if (!did) return core::fail(did.error());
    if (did->seconds > 10 * long_enough_s) break;  // what is set up once is little beside it
  }
  while (out.count < most_steps && (out.count < least_steps || all_s < long_enough_s)) {
    auto did = s.step();
    if (!did) return core::fail(did.error());
    all_s += did->seconds;
    ++out.count;
    out.least_s = std::min(out.least_s, did->seconds);
    if (out.least_s > hopeless * best_s) break;
  }
  return out;
}

}  // namespace

core::result<run_degrees> session::choose_degrees(const session_options& options) {
  if (options.config == nullptr || options.config->open_degrees.empty())
    return core::fail(core::error_kind::bad_input, "session: it was given no configuration with open degrees");
  const auto& c = *options.config;
  opening_watch watch(options.hooks.on_opening);
  if (auto ok = watch.begin("comparing degrees"); !ok) return core::fail(ok.error());
  prepared_models host(options.model);
  auto list = job::list_degrees(c, host.tables(), nullptr, [&] { return watch.go_on(); });
  if (!list) return core::fail(list.error());
  run_degrees out;
  out.texts = options.texts;
  double opening_s = 0, best_s = std::numeric_limits<double>::infinity();

  // Runs one way; a way that cannot be opened is no choice.
  const auto attempt = [&](job::listed_way& way) -> core::result<void> {
    const int64_t begin = core::now_ns();
    session_options trial{.config = trial_of(c, way.choice), .system = options.system, .model = options.model};
    trial.texts = out.texts;
    trial.hooks.on_reading = options.hooks.on_reading;
    trial.hooks.on_opening = [&](const opening_progress& p) {
      return !options.hooks.on_opening || options.hooks.on_opening({"trying " + way.degrees + ": " + p.phase, p.share});
    };
    auto opened = open(std::move(trial));
    if (!opened && opened.error().kind == core::error_kind::stopped) return core::fail(opened.error());
    if (!opened) {
      way.refusal = opened.error().text;
      return {};
    }
    auto& s = **opened;
    s.parts_->recording.is_open = s.parts_->recording.is_closed = true;  // it leaves nothing behind
    if (out.texts == nullptr && options.model == nullptr)
      out.texts =
          std::make_shared<const read_texts>(read_texts{s.parts_->data.tokenizer, s.parts_->data.loader.corpus});
    else
      opening_s += seconds_since(begin);
    const auto steps = run_steps(s, best_s);
    if (!steps) return core::fail(steps.error().in("trying " + way.degrees));
    way.measured_s = std::min(steps->least_s, way.measured_s.value_or(steps->least_s));
    way.measured_steps += steps->count;
    best_s = std::min(best_s, *way.measured_s);
    const int64_t closing = core::now_ns();
    opened->reset();
    opening_s += seconds_since(closing);
    return watch.go_on();
  };

  const bool measures = c.pipeline.profile != config::profile_choice::never && !list->is_measured();
  if (measures && list->chosen) {
    std::vector<job::listed_way*> tried;
    const double fastest_s = list->ways[*list->chosen].predicted_s;
    for (auto& way : list->ways)
      if (way.runs() && way.predicted_s <= tried_spread * fastest_s) tried.push_back(&way);
    std::ranges::stable_sort(tried, {}, &job::listed_way::predicted_s);
    if (tried.size() > tried_max) tried.resize(tried_max);
    if (tried.size() == 1) tried.clear();  // nothing to compare
    for (auto* way : tried)
      if (opening_s < opening_seconds_max)
        if (auto ok = attempt(*way); !ok) return core::fail(ok.error());
    for (auto* way : tried)
      if (opening_s < opening_seconds_max && way->measured_s && *way->measured_s <= too_near * best_s)
        if (auto ok = attempt(*way); !ok) return core::fail(ok.error());
    job::choose_fastest(*list);
    if (list->is_measured()) out.file = job::write_degree_profile(job::profile_of(*list));
  }
  auto taken = job::chosen_degrees(*list, c);
  if (!taken) return core::fail(taken.error());
  out.taken = std::move(*taken);
  out.config = std::make_shared<const config::job_config>(c.with(out.taken));
  out.reason = job::reason_of(*list);
  out.table = job::degrees_as_table(*list);
  return out;
}

}  // namespace troupe::actors
