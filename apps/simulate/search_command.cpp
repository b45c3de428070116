#include "apps/simulate/search_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
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
/// Number of ways of a list that are loaded as a user's job would be, to find those that the loader takes.
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

/// The ways of a list that the loader takes, and what became of the others.
struct loaded_cuts {
  std::vector<chosen_cut> taken;
  std::map<std::string, uint64_t> refused;  ///< [why]: number of ways that `troupe plan` refuses
  uint64_t not_tried = 0;                   ///< ways for which most_loaded leaves no place
  [[nodiscard]] uint64_t num_refused() const {
    uint64_t out = 0;
    for (const auto& [why, ways] : refused) out += ways;
    return out;
  }
};

/// Loads ways as jobs, each at most once.
class cut_loader {
 public:
  cut_loader(const simulate_arguments& a, const hardware::stack& by, const config::job_config& of)
      : a_(a), by_(by), of_(of) {}

  /// Returns the first ways of a list that the loader takes, `most` of them at most. Loads at most most_loaded ways. An
  /// error (bug) if a way's price is another one as a job.
  core::result<loaded_cuts> take(const std::vector<priced_cut>& from, size_t most) {
    loaded_cuts out;
    size_t loads = 0;
    for (size_t i = 0; i < from.size() && out.taken.size() < most; ++i) {
      if (loads++ == most_loaded) {
        out.not_tried = from.size() - i;
        break;
      }
      TROUPE_ASSIGN(auto one, load(from[i]));
      if (one)
        out.taken.push_back({from[i], *std::move(one)});
      else
        ++out.refused[one.error()];
    }
    return out;
  }

  /// Returns the frontier of the ways that the loader takes: one that it refuses makes place for others.
  core::result<loaded_cuts> frontier(const std::vector<priced_cut>& all) {
    loaded_cuts out;
    double least_bytes = std::numeric_limits<double>::infinity();
    size_t loads = 0;
    for (const auto& one : all) {
      if (one.memory_bytes >= least_bytes) continue;
      if (loads++ >= most_loaded) {
        ++out.not_tried;
        continue;
      }
      TROUPE_ASSIGN(auto loaded, load(one));
      if (!loaded) {
        ++out.refused[loaded.error()];
        continue;
      }
      least_bytes = one.memory_bytes;
      out.taken.push_back({one, *std::move(loaded)});
    }
    return out;
  }

 private:
  using loaded = tl::expected<hardware_prediction, std::string>;  // else what the loader refuses first

  core::result<loaded> load(const priced_cut& cut) {
    const auto set = overrides_of(cut.what, of_);
    const auto name = fmt::format("{}", fmt::join(set, " "));
    if (const auto known = known_.find(name); known != known_.end()) return known->second;
    common_arguments job = a_;
    job.set.insert(job.set.end(), set.begin(), set.end());
    auto found = predict_candidate(job, by_);
    loaded out = tl::unexpected(std::string());
    if (!found) {
      out = tl::unexpected(found.error().empty() ? std::string("its configuration") : found.error().front());
    } else {
      const double step_s = found->step.price.predicted;
      if (std::abs(step_s / cut.step_s - 1) > rounding)
        return core::fail(
            core::error_kind::bug,
            fmt::format("the way {} was priced at {:g} s and takes {:g} s as a job", name, cut.step_s, step_s));
      out = std::move(*found);
    }
    return known_.emplace(name, std::move(out)).first->second;
  }

  const simulate_arguments& a_;
  const hardware::stack& by_;
  const config::job_config& of_;
  std::map<std::string, loaded> known_;  // [overrides]
};

std::string schedule_text(const hardware::cut& c) {
  if (c.pipeline == 1) return "-";
  return c.chunks == 1 ? "1f1b" : fmt::format("interleaved x {}", c.chunks);
}

std::string ways_table(const std::vector<chosen_cut>& all) {
  std::vector<std::vector<std::string>> rows{{"tensor", "context", "pipeline", "data", "micro-batches", "ZeRO",
                                              "recompute", "schedule", "step", "tokens/s", "MFU", "memory"}};
  for (const auto& one : all) {
    const auto& c = one.cut.what;
    rows.push_back({fmt::to_string(c.tensor), fmt::to_string(c.context), fmt::to_string(c.pipeline),
                    fmt::to_string(c.data), fmt::format("{} x {}", c.micro_batches, c.micro_batch),
                    fmt::to_string(c.zero), c.recompute ? "yes" : "no", schedule_text(c),
                    value_text(hardware::quantity::step, one.cut.step_s), fmt::format("{:.4g}", one.found.tokens_per_s),
                    percent_text(100 * one.found.used_share), core::human_bytes(one.cut.memory_bytes)});
  }
  return core::aligned(rows, {true, true, true, true, true, true, false, false, true, true, true, true});
}

/// Returns the keys of a way as YAML to paste into the job `of`.
std::string yaml_of(const hardware::cut& c, const config::job_config& of) {
  std::string degrees = fmt::format("tensor: {}, pipeline: {}, data: {}", c.tensor, c.pipeline, c.data);
  if (c.context > 1 || of.parallel.context > 1) degrees += fmt::format(", context: {}", c.context);
  if (of.parallel.all) degrees += fmt::format(", ranks: {}", c.tensor * c.pipeline * c.data * c.context);
  std::string out = fmt::format(
      "parallel: {{{}}}\ntrain_batch_size: {}\ntrain_micro_batch_size_per_gpu: {}\n"
      "gradient_accumulation_steps: {}\nzero_optimization: {{stage: {}}}\nactivation_checkpointing: {{enabled: {}}}\n",
      degrees, c.data * c.micro_batch * c.micro_batches, c.micro_batch, c.micro_batches, c.zero, c.recompute);
  if (c.pipeline > 1)
    out +=
        fmt::format("pipeline: {{schedule: {}, chunks: {}}}\n", c.chunks > 1 ? "interleaved_1f1b" : "1f1b", c.chunks);
  else if (of.pipeline.chunks > 1)
    out += "pipeline: {chunks: 1}\n";
  return out;
}

struct search_result {
  cut_search all;
  loaded_cuts best, frontier;
  fixed_keys fixed;
  config::job_config of;
  uint64_t ranks = 1, batch = 1;
  double limit_bytes = 0;
};

/// Returns the most frequent reasons as lines, with what the numbers count.
std::string reasons_text(const std::map<std::string, uint64_t>& all) {
  std::vector<std::pair<std::string, uint64_t>> sorted(all.begin(), all.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{}, [](const auto& one) { return one.second; });
  std::string out;
  for (size_t i = 0; i < std::min(sorted.size(), most_shown_reasons); ++i)
    out += fmt::format("- {} ways: {}\n", sorted[i].second, core::printable_line(sorted[i].first));
  if (sorted.size() > most_shown_reasons)
    out += fmt::format("- and {} more reasons\n", sorted.size() - most_shown_reasons);
  return out;
}

/// Says which ways of a list were not tried; empty if all were that had to be.
std::string not_tried_text(const char* list, const loaded_cuts& of) {
  if (of.not_tried == 0) return {};
  return fmt::format(
      "{}: {} ways were loaded, most of which `troupe plan` refuses, and {} further ones were not tried\n", list,
      most_loaded, of.not_tried);
}

std::string search_as_text(const simulate_arguments& a, const hardware::stack& by, const search_result& r) {
  std::string out = fmt::format(
      "{} on {} {} of {}, {} samples a step: {} ways, {} of them fit, {} exceed the memory, {} have no price\n",
      core::printable_line(a.file), r.ranks, by.on.name, core::human_bytes(r.limit_bytes), r.batch, r.all.enumerated,
      r.all.fitting.size(), r.all.exceeding.size(), r.all.enumerated - r.all.fitting.size() - r.all.exceeding.size());
  if (!r.fixed.keys.empty()) out += fmt::format("as given by --set: {}\n", fmt::join(r.fixed.keys, ", "));
  out += "\nthe fastest:\n" + ways_table(r.best.taken) + not_tried_text("the fastest", r.best);
  out += "\nno other way is faster with as little memory:\n" + ways_table(r.frontier.taken) +
         not_tried_text("the frontier", r.frontier);
  if (!r.best.refused.empty())
    out += fmt::format("\n{} ways that are priced as fast are refused by `troupe plan`:\n", r.best.num_refused()) +
           reasons_text(r.best.refused);
  if (!r.all.refused.empty()) out += "\nwithout a price:\n" + reasons_text(r.all.refused);
  return out + "\n# the fastest, to paste into the job\n" + yaml_of(r.best.taken.front().cut.what, r.of);
}

nlohmann::ordered_json way_object(const chosen_cut& one, const config::job_config& of) {
  return {{"set", overrides_of(one.cut.what, of)},
          {"step_s", one.cut.step_s},
          {"tokens_per_s", one.found.tokens_per_s},
          {"mfu", one.found.used_share},
          {"memory_bytes", one.cut.memory_bytes}};
}

nlohmann::ordered_json reasons_object(const std::map<std::string, uint64_t>& all) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& [why, count] : all) out.push_back({{"why", why}, {"ways", count}});
  return out;
}

std::string search_as_json(const simulate_arguments& a, const hardware::stack& by, const search_result& r) {
  using object = nlohmann::ordered_json;
  object best = object::array(), frontier = object::array();
  for (const auto& one : r.best.taken) best.push_back(way_object(one, r.of));
  for (const auto& one : r.frontier.taken) frontier.push_back(way_object(one, r.of));
  return object{{"format", "troupe simulate --search"},
                {"version", 1},
                {"job", a.file},
                {"stack", by.name},
                {"ranks", r.ranks},
                {"global_batch", r.batch},
                {"memory_limit_bytes", r.limit_bytes},
                {"fixed", r.fixed.keys},
                {"ways", r.all.enumerated},
                {"fitting", r.all.fitting.size()},
                {"exceeding", r.all.exceeding.size()},
                {"best", best},
                {"best_not_tried", r.best.not_tried},
                {"frontier", frontier},
                {"frontier_not_tried", r.frontier.not_tried},
                {"refused", reasons_object(r.all.refused)},
                {"refused_by_plan", reasons_object(r.best.refused)},
                {"yaml", yaml_of(r.best.taken.front().cut.what, r.of)}}
             .dump(2, ' ', false, object::error_handler_t::replace) +
         "\n";
}

/// Returns the job that is searched: that of the file, with as many ranks as the arguments ask for.
core::result<config::loaded> job_of(const simulate_arguments& a) {
  const auto sentence = [](const config::load_result& from) {
    return core::refused(sentences_of(from.error()).front());
  };
  auto loaded = a.ranks == 0 ? checked_configuration(a, intent::plan) : before_ranks(a, a.ranks);
  if (!loaded) return sentence(loaded);
  if (a.ranks == 0) return std::move(*loaded);
  TROUPE_ASSIGN(const auto more, overrides_for(*loaded, a.ranks));
  common_arguments with = a;
  with.set.insert(with.set.end(), more.begin(), more.end());
  loaded = checked_configuration(with, intent::plan);
  if (!loaded) return sentence(loaded);
  return std::move(*loaded);
}

/// Returns the error of a search that finds no way within the memory: it names the least way that the loader takes.
core::error nothing_fits(const search_result& r, cut_loader& loader) {
  const auto start =
      fmt::format("--memory: none of {} ways fits {} a GPU", r.all.enumerated, core::human_bytes(r.limit_bytes));
  const auto least = loader.take(r.all.exceeding, 1);
  if (!least) return least.error();
  const auto& cut = least->taken.empty() ? r.all.exceeding.front() : least->taken.front().cut;
  const auto way =
      fmt::format("{} ({})", core::human_bytes(cut.memory_bytes), fmt::join(overrides_of(cut.what, r.of), " "));
  if (least->taken.empty())
    return {core::error_kind::bad_input,
            fmt::format("{}; the least that has a price is {}, which `troupe plan` refuses: {}", start, way,
                        least->refused.begin()->first)};
  return {core::error_kind::bad_input, fmt::format("{}; the least is {}", start, way)};
}

core::result<search_result> search(const simulate_arguments& a, const hardware::stack& by) {
  TROUPE_ASSIGN(const auto loaded, job_of(a));
  TROUPE_ASSIGN(const auto model, job::read_model(loaded.config));
  search_result out;
  out.of = loaded.config;
  out.ranks = loaded.config.parallel.ranks();
  out.batch = loaded.config.train_batch_size;
  out.limit_bytes = a.memory_bytes == 0 ? by.on.memory_bytes : double(a.memory_bytes);
  TROUPE_ASSIGN(out.fixed, fixed_by(a.set, out.of));
  TROUPE_ASSIGN(out.all, search_cuts(out.of, model.spec, model.sequence, out.ranks, out.limit_bytes, by, out.fixed));
  cut_loader loader(a, by, out.of);
  if (out.all.fitting.empty()) return core::fail(nothing_fits(out, loader));
  TROUPE_ASSIGN(out.best, loader.take(out.all.fitting, most_listed));
  if (out.best.taken.empty())
    return core::refused(fmt::format(
        "--search: `troupe plan` refuses each of the {} fastest of {} ways; the fastest ({}): {}",
        out.best.num_refused(), out.all.fitting.size(),
        fmt::join(overrides_of(out.all.fitting.front().what, out.of), " "), out.best.refused.begin()->first));
  TROUPE_ASSIGN(out.frontier, loader.frontier(out.all.fitting));
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
