#include "apps/tune/tune.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "apps/base/programs.hpp"
#include "apps/base/stop_request.hpp"
#include "apps/base/terminal.hpp"
#include "apps/plan/plan_costs.hpp"
#include "apps/simulate/candidate.hpp"
#include "apps/simulate/sweep.hpp"
#include "apps/tune/priced_settings.hpp"
#include "apps/tune/trial.hpp"
#include "apps/tune/tune_constants.hpp"
#include "apps/tune/tune_report.hpp"
#include "apps/tune/tune_space.hpp"
#include "config/open_degrees.hpp"
#include "core/clock.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "job/degrees.hpp"
#include "job/model/configured_model.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Owns an empty folder for the outputs of trials in the system's temporary folder.
class trial_folder {
 public:
  static core::result<std::unique_ptr<trial_folder>> make() {
    std::error_code e;
    const fs::path above = fs::temp_directory_path(e);
    if (e) return core::fail(core::error_kind::io, fmt::format("no temporary folder: {}", e.message()));
    std::string name = (above / "troupe-tune-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return core::fail(core::path_error("make a folder in", above, errno));
    return std::unique_ptr<trial_folder>(new trial_folder(std::move(name)));
  }
  trial_folder(const trial_folder&) = delete;
  trial_folder& operator=(const trial_folder&) = delete;
  ~trial_folder() { remove(path_); }

  /// Removes a trial's folder.
  static void remove(const fs::path& folder) {
    std::error_code e;
    fs::remove_all(folder, e);
  }
  /// Returns the path of a trial's folder, which the trial makes.
  [[nodiscard]] fs::path of(size_t trial) const { return path_ / fmt::to_string(trial); }

 private:
  explicit trial_folder(fs::path path) : path_(std::move(path)) {}

  fs::path path_;
};

/// Refuses jobs that trials on this machine cannot measure.
core::result<void> check_tunable(const config::job_config& c) {
  if (c.device != core::device_kind::cpu)
    return core::refused("device: wanted cpu, because memory and rates of a GPU are not measured by troupe tune");
  if (!c.cluster.hosts.empty())
    return core::refused("cluster.hosts: wanted a job on this machine alone; troupe tune starts no agents");
  if (!c.data.rampup_batch_size.empty())
    return core::refused(
        "data.rampup_batch_size: a trial's steps would have fewer samples than later ones; tune a copy of the file "
        "without it");
  return {};
}

/// Returns the axes of --over. Refused: what read_axis() refuses, and keys that decide the global batch or the folder
/// of a run.
core::result<std::vector<sweep_axis>> over_axes(const std::vector<std::string>& texts) {
  constexpr std::string_view begin = "--sweep";
  const auto of_over = [&](const core::error& e) {
    const bool is_of_sweep = e.text.starts_with(begin);
    return core::fail(e.kind, is_of_sweep ? fmt::format("--over{}", e.text.substr(begin.size())) : e.text);
  };
  std::vector<sweep_axis> out;
  for (const auto& text : texts) {
    auto axis = read_axis(text);
    if (!axis) return of_over(axis.error());
    const auto& key = axis->key;
    if (key.starts_with("parallel.") || key == "train_batch_size" || key == "train_micro_batch_size_per_gpu" ||
        key == "gradient_accumulation_steps")
      return core::refused(fmt::format(
          "--over {}: troupe tune varies degrees and micro-batches by itself, at one number of ranks and one global "
          "batch; --set {}=VALUE gives one of them",
          key, key));
    if (key == "output" || key == "steps")
      return core::refused(fmt::format("--over {}: a trial has its own; give another key", key));
    out.push_back(*std::move(axis));
  }
  const auto points = points_of(out);
  if (!points) return of_over(points.error());
  return out;
}

/// The divisions of the ranks to compare.
struct compared_ways {
  std::vector<tune_setting> ways;
  std::vector<std::string> refused;  ///< one sentence for each division that the loader refuses
  std::string note;                  ///< why the degrees are not varied; empty: they are
};

/// Returns the divisions of a job's ranks over the axes, as `auto` divides them.
compared_ways ways_of(const common_arguments& job, const config::job_config& c, const std::set<std::string>& pinned) {
  compared_ways out;
  const tune_setting own = setting_of(c);
  out.ways = {own};
  if (c.parallel.ranks() == 1) return out;
  common_arguments open = job;
  for (const auto& [name, degree] :
       {std::pair("parallel.data", own.data), std::pair("parallel.tensor", own.tensor),
        std::pair("parallel.pipeline", own.pipeline), std::pair("parallel.sequence", own.sequence),
        std::pair("parallel.context", own.context)})
    open.set.push_back(pinned.contains(name) ? fmt::format("{}={}", name, degree) : fmt::format("{}=auto", name));
  open.set.push_back(fmt::format("parallel.ranks={}", c.parallel.ranks()));
  open.set.push_back(fmt::format("train_batch_size={}", c.train_batch_size));
  open.set.emplace_back("train_micro_batch_size_per_gpu=auto");
  open.set.emplace_back("gradient_accumulation_steps=auto");
  const auto loaded = checked_configuration(open, intent::plan);
  if (!loaded) {
    const auto why = sentences_of(loaded.error());
    out.note = fmt::format("degrees stay as they are: {}", why.empty() ? "auto is refused" : why.front());
    return out;
  }
  if (loaded->config.open_degrees.empty()) return out;
  out.ways.clear();
  for (const auto& way : loaded->config.open_degrees) {
    if (way.refusal.empty())
      out.ways.push_back(with_degrees(own, way.parallel));
    else
      out.refused.push_back(way.refusal);
  }
  return out;
}

/// Returns the settings to compare with the file's own, at every point of --over.
core::result<std::vector<offered_setting>> offered_of(const tune_space& space, const std::vector<sweep_axis>& axes) {
  TROUPE_ASSIGN(const auto settings, settings_of(space));
  TROUPE_ASSIGN(const uint64_t points, points_of(axes));
  if (settings.size() * points > tune_settings_max)
    return core::refused(
        fmt::format("tune: wanted at most {} settings to compare, got {} at {} points of --over; give the values of "
                    "some keys with --set",
                    tune_settings_max, settings.size(), points));
  std::vector<offered_setting> out;
  for (uint64_t point = 0; point < points; ++point) {
    const auto over = overrides_at(axes, point);
    for (const auto& setting : settings) {
      offered_setting one;
      one.set = overrides_between(space.own, setting, space.global_batch);
      tune_setting like = setting;
      like.bucket_elements = space.own.bucket_elements;
      auto family = overrides_between(space.own, like, space.global_batch);
      family.insert(family.end(), over.begin(), over.end());
      one.family = fmt::format("{}", fmt::join(family, "\n"));
      one.set.insert(one.set.end(), over.begin(), over.end());
      if (!one.set.empty()) out.push_back(std::move(one));
    }
  }
  return out;
}

/// Tunes one job.
class tuner {
 public:
  explicit tuner(const tune_arguments& a)
      : a_(a), job_(a), tells_(a.form == output_form::text && rewrites_lines(STDERR_FILENO)) {
    job_.strict = false;  // the file's warnings are not those of its variations
  }

  ~tuner() { tell(""); }
  tuner(const tuner&) = delete;
  tuner& operator=(const tuner&) = delete;

  core::result<tuned> run(const config::loaded& loaded) {
    const int64_t begin_ns = core::now_ns();
    out_.file = a_.file;
    TROUPE_TRY(check_tunable(loaded.config));
    TROUPE_ASSIGN(const auto axes, over_axes(a_.over));
    TROUPE_ASSIGN(program_, other_program(own_folder(), "troupe"));
    tell("measuring the machine, unless troupe calibrate has");
    TROUPE_ASSIGN(constants_, constants_of_machine(program_, stop_request::made));
    if (!constants_.note.empty()) out_.notes.push_back(constants_.note);
    out_.memory_limit_bytes = a_.memory_bytes > 0 ? a_.memory_bytes : own_machine().memory_bytes;
    TROUPE_ASSIGN(own_, job_of(loaded.config));
    out_.rates = constants_.model_for(own_).source;
    TROUPE_TRY(price(axes));
    TROUPE_TRY(try_best());
    out_.seconds = core::seconds_since(begin_ns);
    return std::move(out_);
  }

 private:
  void tell(const std::string& what) const {
    if (tells_) rewrite_line(stderr, STDERR_FILENO, core::printable_line(what));
  }

  /// Returns the file's job; in place of degrees that are auto, the fastest predicted ones, which become overrides of
  /// all settings.
  core::result<config::job_config> job_of(const config::job_config& c) {
    if (c.open_degrees.empty()) return c;
    const auto costs = constants_.model_for(c).costs;
    TROUPE_ASSIGN(const auto list, job::list_degrees(c, {}, &costs));
    TROUPE_ASSIGN(const auto taken, job::chosen_degrees(list, c));
    const auto& p = taken.parallel;
    out_.base = {fmt::format("parallel.data={}", p.data), fmt::format("parallel.tensor={}", p.tensor),
                 fmt::format("parallel.pipeline={}", p.pipeline), fmt::format("parallel.sequence={}", p.sequence),
                 fmt::format("parallel.context={}", p.context)};
    job_.set.insert(job_.set.end(), out_.base.begin(), out_.base.end());
    out_.notes.push_back(
        fmt::format("degrees that are auto in the file: its own setting has the fastest predicted ones, {}",
                    config::degrees_text(p)));
    return c.with(taken);
  }

  core::result<void> price(const std::vector<sweep_axis>& axes) {
    tune_space space{.own = setting_of(own_),
                     .global_batch = own_.train_batch_size,
                     .ways = {},
                     .elements = 0,
                     .pinned = pinned_by(a_.set)};
    out_.step = {.ranks = own_.parallel.ranks(), .samples = own_.train_batch_size, .tokens_of_sample = 0};
    priced_setting own;
    if (const auto planned = planned_job(job_, constants_); planned) {
      own = priced({}, *planned);
      out_.step.tokens_of_sample = planned->sequence;
      space.elements = planned->table->numel();
    } else {
      own.refusal = planned.error().empty() ? std::string("it cannot be loaded") : planned.error().front();
      TROUPE_ASSIGN(const auto model, job::read_model(own_));
      out_.step.tokens_of_sample = model.sequence;
    }
    const auto tuned = tuned_keys();
    auto pinned = space.pinned;
    for (const auto& axis : axes)
      if (std::ranges::find(tuned, axis.key) != tuned.end()) space.pinned.insert(axis.key);
    auto ways = ways_of(job_, own_, pinned);
    space.ways = std::move(ways.ways);
    if (!ways.note.empty()) out_.notes.push_back(ways.note);
    if (!pinned.empty())
      out_.notes.push_back(fmt::format("not varied, because --set gives them: {}", fmt::join(pinned, ", ")));
    TROUPE_ASSIGN(const auto offered, offered_of(space, axes));
    out_.priced = price_settings(job_, constants_, out_.step, std::move(own), offered, out_.memory_limit_bytes,
                                 [&](uint64_t planned) {
                                   tell(fmt::format("planning {} of {} settings", planned + 1, offered.size()));
                                   return stop_request::made();
                                 });
    add_refused(ways.refused);
    out_.stopped = out_.priced.stopped;
    return out_.stopped ? core::result<void>() : check_fit();
  }

  /// Counts the divisions of the ranks that the loader refuses among the refused settings.
  void add_refused(const std::vector<std::string>& ways) {
    refusal_count count;
    for (const auto& why : ways) count.add(why);
    for (const auto& one : count.sorted()) out_.priced.refused.push_back(one);
    out_.priced.compared += ways.size();
  }

  [[nodiscard]] bool own_fits() const {
    const auto& own = out_.priced.own;
    return own.refusal.empty() && own.memory_bytes <= out_.memory_limit_bytes;
  }

  /// Refuses a limit that nothing fits, with the least memory, and a job of which nothing can be planned.
  [[nodiscard]] core::result<void> check_fit() const {
    const auto& p = out_.priced;
    if (own_fits() || !p.fitting.empty()) return {};
    const priced_setting* least = p.exceeding.empty() ? nullptr : &p.exceeding.front();
    if (p.own.refusal.empty() && (least == nullptr || p.own.memory_bytes <= least->memory_bytes)) least = &p.own;
    if (least == nullptr)
      return core::refused(
          fmt::format("tune: none of {} settings can be planned; the file's own: {}", p.compared, p.own.refusal));
    const std::string which =
        least == &p.own ? "the file's own setting" : fmt::format("{}", fmt::join(least->set, " "));
    return core::refused(fmt::format("--memory: none of {} settings fits {}; the least is {} ({})", p.compared,
                                     core::human_bytes(out_.memory_limit_bytes), core::human_bytes(least->memory_bytes),
                                     which));
  }

  /// Returns the command of a trial whose output goes into a folder.
  [[nodiscard]] std::vector<std::string> command_of(const priced_setting& setting, const fs::path& output) const {
    std::vector<std::string> out{program_.string(), "train", a_.file};
    auto set = job_.set;
    set.insert(set.end(), setting.set.begin(), setting.set.end());
    const auto quiet = quiet_overrides(own_, output);
    set.insert(set.end(), quiet.begin(), quiet.end());
    for (const auto& one : set) {
      out.emplace_back("--set");
      out.push_back(one);
    }
    out.insert(out.end(), {"--steps", fmt::to_string(a_.steps), "--json"});
    return out;
  }

  /// Tries a setting and adds it to the result. Returns false if the user stopped.
  bool try_one(const priced_setting& setting, bool is_own, const trial_folder& folder) {
    const auto output = folder.of(out_.tried.size());
    const trial_limits limits{
        .memory_bytes = out_.memory_limit_bytes,
        .patience_s = a_.patience_s > 0 ? a_.patience_s : patience_of(a_.steps, setting.predicted_s)};
    auto result = run_trial(command_of(setting, output), limits, stop_request::made);
    trial_folder::remove(output);
    if (result.stopped) return false;
    out_.tried.push_back({setting, std::move(result), is_own});
    return true;
  }

  void leave_out_own(std::string why) {
    trial_result result;
    result.failure = std::move(why);
    out_.tried.push_back({out_.priced.own, std::move(result), true});
  }

  core::result<void> try_best() {
    if (out_.stopped) return {};
    TROUPE_ASSIGN(const auto folder, trial_folder::make());
    const auto others = settings_to_try(out_.priced, a_.trials, a_.all);
    const auto& own = out_.priced.own;
    tell(fmt::format("trial 1 of {}: the file's own setting", others.size() + 1));
    if (!own.refusal.empty())
      leave_out_own("not tried: " + own.refusal);
    else if (!own_fits())
      leave_out_own(fmt::format("not tried: it needs {} of {}", core::human_bytes(own.memory_bytes),
                                core::human_bytes(out_.memory_limit_bytes)));
    else if (!try_one(own, true, *folder))
      out_.stopped = true;
    for (const auto& one : others) {
      out_.stopped = out_.stopped || stop_request::made();
      if (out_.stopped) break;
      tell(fmt::format("trial {} of {}: {}", out_.tried.size() + 1, others.size() + 1, fmt::join(one.set, " ")));
      out_.stopped = !try_one(one, false, *folder);
    }
    return {};
  }

  const tune_arguments& a_;
  common_arguments job_;  // the file with the overrides that all settings share
  bool tells_;
  fs::path program_;
  tune_constants constants_;
  config::job_config own_;
  tuned out_;
};

}  // namespace

int tune(const tune_arguments& a) {
  const auto loaded = load_configuration(a, std::nullopt, intent::plan);
  if (!loaded) return 2;
  const stop_request stop;
  const auto done = tuner(a).run(*loaded);
  if (!done) return failed(done.error());
  if (!a.out.empty())
    if (const auto ok = storage::write_file_atomically(a.out, yaml_of(*done)); !ok) return failed(ok.error());
  std::fputs((a.form == output_form::json ? tuned_as_json(*done) : tuned_as_text(*done)).c_str(), stdout);
  if (done->stopped) return stopped_code();
  return fastest_of(done->tried) ? 0 : 1;
}

}  // namespace troupe::apps
