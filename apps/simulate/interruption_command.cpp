#include "apps/simulate/interruption_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "apps/simulate/candidate.hpp"
#include "apps/simulate/simulate_report.hpp"
#include "core/text.hpp"
#include "hardware/catalogue.hpp"
#include "hardware/interruptions.hpp"

namespace troupe::apps {
namespace {

constexpr double seconds_per_hour = 3600, giga = 1e9;
/// Largest expected number of simulated failures, about a second of computing.
constexpr double most_failures = 2e7;
/// Bytes of a checkpoint for each parameter: fp32 weights and two moments.
constexpr double saved_bytes_per_parameter = 12;

/// Numbers of steps between checkpoints that are compared: the best one, and others around it.
std::vector<uint64_t> compared(uint64_t best) {
  std::vector<uint64_t> out;
  for (const double factor : {0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0})
    out.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(double(best) * factor)));
  const auto twice = std::ranges::unique(out);
  out.erase(twice.begin(), twice.end());
  return out;
}

/// Returns a time as people say it: hours and days above two hours.
std::string long_time_text(double s) {
  constexpr double hours_max = 48;
  const double hours = s / seconds_per_hour;
  if (hours < 2) return value_text(hardware::quantity::step, s);
  return hours < hours_max ? fmt::format("{:.4g} h", hours) : fmt::format("{:.4g} days", hours / 24);
}

std::string steps_text(uint64_t n) { return fmt::format("{} step{}", n, n == 1 ? "" : "s"); }

struct compared_share {
  uint64_t every_steps = 0;
  double expected = 0;
  hardware::simulated_share simulated;
};

}  // namespace

int show_interruptions(const simulate_arguments& a) {
  const auto by = hardware::choose_job_stack(a.measured.hardware.front());
  if (!by) return failed(by.error());
  const auto found = a.ranks == 0 ? predict_candidate(a, *by) : predict_with_ranks(a, a.ranks, *by);
  if (!found) return failed({core::error_kind::bad_input, found.error().front()});
  const auto& job = found->job;
  hardware::interrupted_job interrupted;
  interrupted.step_s = found->step.price.predicted;
  interrupted.save_s =
      double(job.parameters) * saved_bytes_per_parameter / double(job.ranks) / (a.write_gb_per_s * giga);
  interrupted.restart_s = a.restart_s;
  interrupted.mtbf_s = a.is_of_node ? a.mtbf_s / found->nodes : a.mtbf_s;
  const uint64_t best = hardware::best_every_steps(interrupted);
  const double duration_s = a.hours * seconds_per_hour;
  std::vector<compared_share> all;
  const double failures = double(compared(best).size()) * double(a.runs) * duration_s / interrupted.mtbf_s;
  if (failures > most_failures)
    return failed(
        {core::error_kind::bad_input,
         fmt::format("--runs, --hours: wanted at most {:g} failures in all runs, got {:.3g}, one every {}; give "
                     "fewer or shorter runs",
                     most_failures, failures, long_time_text(interrupted.mtbf_s))});
  for (const uint64_t every : compared(best))
    all.push_back({every, hardware::expected_useful_share(interrupted, every),
                   hardware::simulated_useful_share(interrupted, every, duration_s, a.runs, a.seed)});
  const double best_share = hardware::expected_useful_share(interrupted, best);
  if (a.form == output_form::json) {
    using object = nlohmann::ordered_json;
    object rows = object::array();
    for (const auto& one : all)
      rows.push_back({{"every_steps", one.every_steps},
                      {"expected_share", one.expected},
                      {"simulated_share", one.simulated.mean},
                      {"standard_error", one.simulated.standard_error}});
    std::fputs((object{{"format", "troupe simulate --mtbf"},
                       {"version", 1},
                       {"job", a.file},
                       {"stack", by->name},
                       {"ranks", job.ranks},
                       {"step_s", interrupted.step_s},
                       {"save_s", interrupted.save_s},
                       {"restart_s", interrupted.restart_s},
                       {"nodes", found->nodes},
                       {"mtbf_s", interrupted.mtbf_s},
                       {"best_every_steps", best},
                       {"expected_share", best_share},
                       {"youngs_every_steps", hardware::youngs_every_steps(interrupted)},
                       {"dalys_every_steps", hardware::dalys_every_steps(interrupted)},
                       {"compared", rows}}
                    .dump(2, ' ', false, object::error_handler_t::replace) +
                "\n")
                   .c_str(),
               stdout);
    return 0;
  }
  const std::string of_nodes = a.is_of_node ? fmt::format(" (one of {:g} nodes, each of which fails every {})",
                                                          found->nodes, long_time_text(a.mtbf_s))
                                            : std::string();
  std::string out = fmt::format(
      "{} on {} {}, a failure of the job every {}{}: {} of the time is useful with checkpoint.every_steps: {}\n"
      "a step takes {}, a checkpoint {} ({:g} bytes a parameter, {:g} GB/s from each rank), a restart {}\n"
      "Daly's estimate is {}, Young's {}\n\n",
      core::printable_line(a.file), job.ranks, by->on.name, long_time_text(interrupted.mtbf_s), of_nodes,
      percent_text(100 * best_share), best, long_time_text(interrupted.step_s), long_time_text(interrupted.save_s),
      saved_bytes_per_parameter, a.write_gb_per_s, long_time_text(interrupted.restart_s),
      steps_text(hardware::dalys_every_steps(interrupted)), steps_text(hardware::youngs_every_steps(interrupted)));
  std::vector<std::vector<std::string>> rows{
      {"every_steps", "expected", fmt::format("{} runs of {:g} hours", a.runs, a.hours), "standard error"}};
  for (const auto& one : all)
    rows.push_back({fmt::to_string(one.every_steps), percent_text(100 * one.expected),
                    percent_text(100 * one.simulated.mean),
                    fmt::format("{:.2f} %", 100 * one.simulated.standard_error)});
  out += core::aligned(rows, {true, true, true, true});
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
