#include "job/degrees.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "config/open_degrees.hpp"
#include "core/system/cores.hpp"
#include "core/text.hpp"
#include "job/missed_budget.hpp"
#include "job/open_sizes.hpp"
#include "plan/choose/shared_cores.hpp"

namespace troupe::job {
namespace {

/// Refuses a file in which a version that measured steps of degrees kept them in the run's folder: a run that is
/// resumed there would go on with other degrees without a word.
core::result<void> check_folder(const std::filesystem::path& folder) {
  const auto file = folder / "degrees.csv";
  std::error_code e;
  if (folder.empty() || !std::filesystem::exists(file, e)) return {};
  return core::refused(
      file.string() +
      ": steps of degrees are no longer measured, and this file would not be read; remove it, and give the degrees of "
      "config.yaml beside it in place of auto if a run is to keep them");
}

uint64_t most_states(const step_plans& plans) {
  uint64_t out = 0;
  for (const auto& p : plans.plans()) out = std::max(out, p->memory.states());
  return out * plans.ranks();
}

class lister {
 public:
  lister(const config::job_config& c, const tables_for& own, const plan::cost_model* costs, const go_on& go_on)
      : c_(c), own_(own), costs_(costs), go_on_(go_on) {}

  core::result<degree_list> run() {
    TROUPE_TRY(check_folder(c_.output));
    degree_list out;
    out.cores = core::usable_cores();
    for (const auto& choice : c_.open_degrees) {
      if (go_on_) TROUPE_TRY(go_on_());
      listed_way way;
      way.choice = choice;
      way.degrees = config::degrees_text(choice.parallel);
      way.refusal = choice.refusal;
      if (way.runs()) TROUPE_TRY(plan_way(way, out.cores));
      out.ways.push_back(std::move(way));
    }
    choose_fastest(out);
    return out;
  }

 private:
  core::result<blueprint> planned(const config::job_config& job) const {
    auto config = std::make_shared<const config::job_config>(job);
    host_tables tables;
    if (own_) {
      TROUPE_ASSIGN(auto made, own_(job));
      tables = made;
    }
    return make_blueprint(std::move(config), tables, costs_, {.go_on = go_on_});
  }

  // Plans one division of the ranks (a *way*), and stores its sizes or the reason why it is refused. Returns an error
  // only if planning was stopped or the least budget cannot be computed.
  core::result<void> plan_way(listed_way& way, uint32_t cores) const {
    config::job_config job = c_.with(way.choice);
    auto b = planned(job);
    if (!b && b.error().kind == core::error_kind::stopped) return core::fail(b.error());
    if (!b) way.refusal = b.error().text;
    if (!b && (job.host_memory_budget > 0 || job.compile.memory_budget > 0)) {
      job.host_memory_budget = job.compile.memory_budget = 0;
      b = planned(job);
      way.lacks_memory = b.has_value();
    }
    if (!b) return {};
    for (const auto& p : b->train.plans()) way.rank_bytes = std::max(way.rank_bytes, p->memory.total());
    way.predicted_s = predicted_step_s(b->train, b->costs, cores);
    TROUPE_ASSIGN(auto least, least_budget_of(*b));
    way.least_budget = least;
    if (way.lacks_memory) raise_until_it_fits(way, job);
    return {};
  }

  core::result<uint64_t> least_budget_of(const blueprint& b) const {
    const auto& c = *b.config;
    if (budget_of(c_).key == passes_budget) return least_memory_budget(c, b.table, b.plain, b.costs, go_on_);
    const auto which = c.checkpoint.is_on() ? plan::plan_choice::train_saving : plan::plan_choice::train;
    const auto& options = b.options[static_cast<size_t>(which)];
    if (options.tiers.swaps()) return least_budget(c, b.table, options, b.costs, go_on_);
    uint64_t out = most_states(b.train);
    if (which == plan::plan_choice::train) return out;
    TROUPE_ASSIGN(auto saving, b.write(which, go_on_));
    return std::max(out, most_states(saving));
  }

  // Raises the least budget of a way until the job can be planned with it, at most `tries` times: a budget changes the
  // division into pipeline stages, by estimates of the stages' memory, so the first value may not suffice.
  void raise_until_it_fits(listed_way& way, config::job_config job) const {
    constexpr int tries = 8;
    auto& budget = budget_of(c_).key == passes_budget ? job.compile.memory_budget : job.host_memory_budget;
    for (int i = 0; i < tries; ++i) {
      budget = way.least_budget;
      if (planned(job)) return;
      way.least_budget += way.least_budget / 16;
    }
  }

  const config::job_config& c_;
  const tables_for& own_;
  const plan::cost_model* costs_;
  const go_on& go_on_;
};

std::string step_text(const listed_way& way) { return core::text_of("predicted %.2f ms", 1e3 * way.predicted_s); }

}  // namespace

double predicted_step_s(const step_plans& plans, const plan::cost_model& costs, uint32_t cores) {
  std::vector<uint32_t> stands_for;
  for (const auto& c : plans.classes()) stands_for.push_back(static_cast<uint32_t>(c.ranks.size()));
  return plan::predict_on_cores(plans.plans(), costs, cores, std::move(stands_for));
}

core::result<degree_list> list_degrees(const config::job_config& config, const tables_for& own,
                                       const plan::cost_model* costs, const go_on& go_on) {
  return lister(config, own, costs, go_on).run();
}

named_budget budget_of(const config::job_config& c) {
  if (c.compile.enabled && c.compile.memory_budget > 0) return {passes_budget, c.compile.memory_budget};
  return {"cluster.host_memory_budget", c.host_memory_budget};
}

void choose_fastest(degree_list& list) {
  list.chosen.reset();
  double least_s = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < list.ways.size(); ++i) {
    const auto& w = list.ways[i];
    if (!w.runs() || (list.chosen && w.predicted_s >= least_s)) continue;
    least_s = w.predicted_s;
    list.chosen = i;
  }
}

core::result<config::degree_choice> chosen_degrees(const degree_list& list, const config::job_config& c) {
  if (list.chosen) return list.ways[*list.chosen].choice;
  const listed_way* least = nullptr;
  for (const auto& w : list.ways)
    if (w.lacks_memory && (least == nullptr || w.least_budget < least->least_budget)) least = &w;
  if (least != nullptr)
    return core::fail(core::error_kind::bad_input, fmt::format("{}: wanted at least {} bytes, the need of {}, which is "
                                                               "the least of {} ways to share out the ranks, got {}",
                                                               budget_of(c).key, least->least_budget, least->degrees,
                                                               list.ways.size(), budget_of(c).bytes));
  std::string out = fmt::format(
      "parallel.ranks: every combination of degrees is refused; change parallel.ranks or the keys named here, got {}",
      c.parallel.ranks());
  constexpr size_t told_max = 4;
  for (size_t i = 0; i < std::min(told_max, list.ways.size()); ++i)
    out += "; " + list.ways[i].degrees + ": " + list.ways[i].refusal;
  if (list.ways.size() > told_max) out += fmt::format("; and {} more combinations", list.ways.size() - told_max);
  return core::fail(core::error_kind::bad_input, out);
}

std::string reason_of(const degree_list& list) {
  if (!list.chosen) return fmt::format("none of {} ways to share out the ranks fits", list.ways.size());
  const auto& best = list.ways[*list.chosen];
  const auto runs = static_cast<size_t>(std::ranges::count_if(list.ways, &listed_way::runs));
  std::string out =
      best.degrees + ": " + step_text(best) + " a step, " + core::human_bytes(best.rank_bytes) + " at most on a rank";
  const listed_way* next = nullptr;
  for (const auto& w : list.ways)
    if (&w != &best && w.runs() && (next == nullptr || w.predicted_s < next->predicted_s)) next = &w;
  if (next != nullptr) out += "; next " + next->degrees + ", " + step_text(*next);
  return fmt::format("{}; {} of {} ways can run", out, runs, list.ways.size());
}

}  // namespace troupe::job
