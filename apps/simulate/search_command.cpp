#include "apps/simulate/search_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "apps/simulate/candidate.hpp"
#include "apps/simulate/cut_search.hpp"
#include "apps/simulate/simulate_report.hpp"
#include "core/text.hpp"
#include "hardware/catalogue.hpp"
#include "job/model/configured_model.hpp"

namespace troupe::apps {
namespace {

/// Number of ways that are listed, fastest first.
constexpr size_t most_listed = 10;
/// Number of ways that are loaded as a user's job would be, to find those that the loader takes.
constexpr size_t most_loaded = 400;
/// Number of reasons of refusals that the text shows.
constexpr size_t most_shown_reasons = 5;
/// Relative difference of two computations of one price.
constexpr double rounding = 1e-9;

/// A way that the loader takes, and its whole prediction.
struct chosen_cut {
  priced_cut cut;
  hardware_prediction found;
};

struct chosen {
  std::vector<chosen_cut> best, frontier;
  uint64_t not_loaded = 0;  ///< faster ways that the loader refuses
};

/// Loads a way as a job. Returns nullopt if the loader refuses it; an error (bug) if its price is another one then.
core::result<std::optional<chosen_cut>> load_cut(const simulate_arguments& a, const hardware::stack& by,
                                                 const priced_cut& cut) {
  common_arguments job = a;
  const auto set = overrides_of(cut.what);
  job.set.insert(job.set.end(), set.begin(), set.end());
  auto found = predict_candidate(job, by);
  if (!found) return std::optional<chosen_cut>();
  const double step_s = found->step.price.predicted;
  if (std::abs(step_s / cut.step_s - 1) > rounding)
    return core::fail(core::error_kind::bug, fmt::format("the way {} was priced at {:g} s and takes {:g} s as a job",
                                                         fmt::join(set, " "), cut.step_s, step_s));
  return std::optional(chosen_cut{cut, std::move(*found)});
}

/// Returns the first ways of a list that the loader takes, `most` of them at most; counts the others.
core::result<std::vector<chosen_cut>> take_loaded(const simulate_arguments& a, const hardware::stack& by,
                                                  const std::vector<priced_cut>& from, size_t most, size_t& loads,
                                                  uint64_t& refused) {
  std::vector<chosen_cut> out;
  for (const auto& cut : from) {
    if (out.size() == most || loads == most_loaded) break;
    ++loads;
    TROUPE_ASSIGN(auto one, load_cut(a, by, cut));
    if (one)
      out.push_back(std::move(*one));
    else
      ++refused;
  }
  return out;
}

std::string schedule_text(const hardware::cut& c) {
  if (c.pipeline == 1) return "-";
  return c.chunks == 1 ? "1f1b" : fmt::format("interleaved x {}", c.chunks);
}

std::string ways_table(const std::vector<chosen_cut>& all) {
  std::vector<std::vector<std::string>> rows{{"tensor", "pipeline", "data", "micro-batches", "ZeRO", "recompute",
                                              "schedule", "step", "tokens/s", "MFU", "memory"}};
  for (const auto& one : all) {
    const auto& c = one.cut.what;
    rows.push_back({fmt::to_string(c.tensor), fmt::to_string(c.pipeline), fmt::to_string(c.data),
                    fmt::format("{} x {}", c.micro_batches, c.micro_batch), fmt::to_string(c.zero),
                    c.recompute ? "yes" : "no", schedule_text(c), value_text(hardware::quantity::step, one.cut.step_s),
                    fmt::format("{:.4g}", one.found.tokens_per_s), percent_text(100 * one.found.used_share),
                    core::human_bytes(one.cut.memory_bytes)});
  }
  return core::aligned(rows, {true, true, true, true, true, false, false, true, true, true, true});
}

/// Returns the keys of a way as YAML to paste into the job.
std::string yaml_of(const hardware::cut& c) {
  std::string out = fmt::format(
      "parallel: {{tensor: {}, pipeline: {}, data: {}{}}}\ntrain_batch_size: {}\ntrain_micro_batch_size_per_gpu: {}\n"
      "gradient_accumulation_steps: {}\nzero_optimization: {{stage: {}}}\nactivation_checkpointing: {{enabled: {}}}\n",
      c.tensor, c.pipeline, c.data, c.context == 1 ? "" : fmt::format(", context: {}", c.context),
      c.data * c.micro_batch * c.micro_batches, c.micro_batch, c.micro_batches, c.zero, c.recompute);
  if (c.pipeline > 1)
    out +=
        fmt::format("pipeline: {{schedule: {}, chunks: {}}}\n", c.chunks > 1 ? "interleaved_1f1b" : "1f1b", c.chunks);
  return out;
}

struct search_result {
  cut_search all;
  chosen ways;
  uint64_t ranks = 1, batch = 1;
  double limit_bytes = 0;
};

std::string search_as_text(const simulate_arguments& a, const hardware::stack& by, const search_result& r) {
  std::string out = fmt::format(
      "{} on {} {} of {}, {} samples a step: {} ways, {} of them fit, {} exceed the memory, {} have no price\n",
      core::printable_line(a.file), r.ranks, by.on.name, core::human_bytes(r.limit_bytes), r.batch, r.all.enumerated,
      r.all.fitting.size(), r.all.exceeding.size(), r.all.enumerated - r.all.fitting.size() - r.all.exceeding.size());
  out += "\nthe fastest:\n" + ways_table(r.ways.best);
  out += "\nno other way is faster with as little memory:\n" + ways_table(r.ways.frontier);
  if (r.ways.not_loaded > 0)
    out += fmt::format("\n{} ways that are priced as fast are refused by `troupe plan`\n", r.ways.not_loaded);
  std::vector<std::pair<std::string, uint64_t>> refused(r.all.refused.begin(), r.all.refused.end());
  std::ranges::stable_sort(refused, std::ranges::greater{}, [](const auto& one) { return one.second; });
  if (!refused.empty()) out += "\nwithout a price:\n";
  for (size_t i = 0; i < std::min(refused.size(), most_shown_reasons); ++i)
    out += fmt::format("- {} ways: {}\n", refused[i].second, refused[i].first);
  out += "\n# the fastest, to paste into the job\n" + yaml_of(r.ways.best.front().cut.what);
  return out;
}

nlohmann::ordered_json way_object(const chosen_cut& one) {
  return {{"set", overrides_of(one.cut.what)},
          {"step_s", one.cut.step_s},
          {"tokens_per_s", one.found.tokens_per_s},
          {"mfu", one.found.used_share},
          {"memory_bytes", one.cut.memory_bytes}};
}

std::string search_as_json(const simulate_arguments& a, const hardware::stack& by, const search_result& r) {
  using object = nlohmann::ordered_json;
  object best = object::array(), frontier = object::array(), refused = object::array();
  for (const auto& one : r.ways.best) best.push_back(way_object(one));
  for (const auto& one : r.ways.frontier) frontier.push_back(way_object(one));
  for (const auto& [why, count] : r.all.refused) refused.push_back({{"why", why}, {"ways", count}});
  return object{{"format", "troupe simulate --search"},
                {"version", 1},
                {"job", a.file},
                {"stack", by.name},
                {"ranks", r.ranks},
                {"global_batch", r.batch},
                {"memory_limit_bytes", r.limit_bytes},
                {"ways", r.all.enumerated},
                {"fitting", r.all.fitting.size()},
                {"exceeding", r.all.exceeding.size()},
                {"best", best},
                {"frontier", frontier},
                {"refused", refused},
                {"yaml", yaml_of(r.ways.best.front().cut.what)}}
             .dump(2, ' ', false, object::error_handler_t::replace) +
         "\n";
}

/// Returns the job that is searched: that of the file, with as many ranks as the arguments ask for.
core::result<config::loaded> job_of(const simulate_arguments& a) {
  const auto sentence = [](const config::load_result& from) {
    return core::refused(sentences_of(from.error()).front());
  };
  auto loaded = a.ranks == 0 ? checked_configuration(a, intent::plan) : before_ranks(a);
  if (!loaded) return sentence(loaded);
  if (a.ranks == 0) return std::move(*loaded);
  TROUPE_ASSIGN(const auto more, overrides_for(*loaded, a.ranks));
  common_arguments with = a;
  with.set.insert(with.set.end(), more.begin(), more.end());
  loaded = checked_configuration(with, intent::plan);
  if (!loaded) return sentence(loaded);
  return std::move(*loaded);
}

core::result<search_result> search(const simulate_arguments& a, const hardware::stack& by) {
  TROUPE_ASSIGN(const auto loaded, job_of(a));
  TROUPE_ASSIGN(const auto model, job::read_model(loaded.config));
  search_result out;
  out.ranks = loaded.config.parallel.ranks();
  out.batch = loaded.config.train_batch_size;
  out.limit_bytes = a.memory_bytes == 0 ? by.on.memory_bytes : double(a.memory_bytes);
  TROUPE_ASSIGN(out.all, search_cuts(loaded.config, model.spec, model.sequence, out.ranks, out.limit_bytes, by));
  if (out.all.fitting.empty()) {
    const auto& least = out.all.exceeding.front();
    return core::refused(fmt::format("--memory: none of {} ways fits {} a GPU; the least is {} ({})",
                                     out.all.enumerated, core::human_bytes(out.limit_bytes),
                                     core::human_bytes(least.memory_bytes), fmt::join(overrides_of(least.what), " ")));
  }
  size_t loads = 0;
  TROUPE_ASSIGN(out.ways.best, take_loaded(a, by, out.all.fitting, most_listed, loads, out.ways.not_loaded));
  if (out.ways.best.empty())
    return core::refused(fmt::format("--search: `troupe plan` refuses each of the {} fastest ways; see why with {}",
                                     loads, fmt::join(overrides_of(out.all.fitting.front().what), " --set ")));
  uint64_t unused = 0;
  auto all = out.all.fitting;
  while (loads < most_loaded) {  // a way that is refused makes place for others
    const auto frontier = frontier_of(all);
    TROUPE_ASSIGN(out.ways.frontier, take_loaded(a, by, frontier, frontier.size(), loads, unused));
    if (out.ways.frontier.size() == frontier.size()) break;
    std::erase_if(all, [&](const priced_cut& one) {
      const auto is_same = [&](const auto& other) { return other.what == one.what; };
      const auto is_taken = [&](const chosen_cut& other) { return other.cut.what == one.what; };
      return std::ranges::any_of(frontier, is_same) && std::ranges::none_of(out.ways.frontier, is_taken);
    });
  }
  return out;
}

}  // namespace

int show_search(const simulate_arguments& a) {
  const auto by = hardware::choose_job_stack(a.measured.hardware.front());
  if (!by) return failed(by.error());
  const auto found = search(a, *by);
  if (!found) return failed(found.error());
  const auto text = a.form == output_form::json ? search_as_json(a, *by, *found) : search_as_text(a, *by, *found);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
