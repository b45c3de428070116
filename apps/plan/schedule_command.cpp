#include "apps/plan/schedule_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "apps/base/exit_code.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/integer_options.hpp"
#include "core/source_file.hpp"
#include "plan/schedule/named.hpp"
#include "plan/schedule/proof.hpp"
#include "plan/schedule/search.hpp"
#include "plan/schedule/stage_cut.hpp"
#include "plan/schedule/text.hpp"
#include "plan/schedule/timing.hpp"
#include "plan/schedule/transfers.hpp"

namespace troupe::apps {
namespace {

std::string list_of_names() {
  std::string out;
  for (const auto& s : plan::named_schedules()) out += fmt::format("  {:18} {}\n", s.name, s.summary);
  return out;
}

/// Returns the choices of the argument: the names of schedules, `search`, or a file.
std::string choices() {
  std::string out = "{";
  for (const auto& s : plan::named_schedules()) out.append(s.name).append(",");
  return out + "search,FILE.csv}";
}

plan::pipeline_costs costs_of(uint32_t stages, const std::vector<double>& each, double transfer) {
  plan::pipeline_costs out;
  out.stages.assign(stages, {each[0], each[1], each[2], 1, 0});
  out.transfer_s = transfer;
  return out;
}

void show_times(const plan::pipeline_table& t, const plan::pipeline_costs& costs) {
  const auto times = plan::play_table(t, costs);
  double busy = 0;
  for (const auto& r : times.ranks) busy += r.busy_s;
  const double idle = times.total_s > 0 ? 1 - busy / (times.total_s * double(times.ranks.size())) : 0;
  std::fprintf(stderr, "proved; %g units of time, %.1f %% of them idle\n", times.total_s, 100 * idle);
  for (size_t r = 0; r < times.ranks.size(); ++r)
    std::fprintf(stderr, "rank %zu: idle %g between its first action and its last, at most %llu activations\n", r,
                 times.ranks[r].idle_s, static_cast<unsigned long long>(times.ranks[r].peak_bytes));
}

void show_cut(const plan::pipeline_table& t, uint32_t units) {
  const auto offsets = plan::cut_evenly(units, t.stages());
  for (uint32_t k = 0; k < t.stages(); ++k)
    std::fprintf(stderr, "stage %u on rank %u: units %u to %u\n", k, t.rank_of_stage[k], offsets[k],
                 offsets[k + 1] - 1);
}

}  // namespace

schedule_command::schedule_command(CLI::App& app)
    : program_command(app, "schedule", "the order in which the ranks of a pipeline compute, proved and timed") {
  command_
      ->add_option("schedule", what_,
                   "one of " + choices() + ", or a file in PyTorch's notation; without it, what the names mean")
      ->type_name(choices());
  command_->add_option("--ranks", ranks_, "ranks of the pipeline")->check(CLI::Range(1U, 4096U))->capture_default_str();
  command_->add_option("--chunks", chunks_, "stages of each rank; 0: as many as the schedule needs");
  command_->add_option("--micro-batches", micro_batches_, "micro-batches of a step")
      ->check(CLI::Range(1U, 65536U))
      ->capture_default_str();
  command_->add_option("--costs", costs_, "times of a stage: forward, gradient of the input, gradient of the weights")
      ->expected(3)
      ->delimiter(',')
      ->check(positive_number(true))
      ->capture_default_str();
  command_->add_option("--transfer", transfer_, "time between two ranks")->check(positive_number(true));
  command_->add_option("--units", units_, "show how this number of units is divided evenly over the stages");
  command_->add_flag("--transfers", with_transfers_, "write sends and receives, too");
}

int schedule_command::run() const {
  const bool is_file = what_.ends_with(".csv");
  const auto ok = refuse_idle(
      given_in(*command_),
      {{!what_.empty(),
        "a schedule, and none is named",
        {"--ranks", "--chunks", "--micro-batches", "--costs", "--transfer", "--units", "--transfers"}},
       {!is_file, "a schedule by name, and a file contains them", {"--ranks", "--chunks", "--micro-batches"}},
       {what_ != "search", "a schedule by name, and a searched one has one chunk a rank", {"--chunks"}}});
  if (!ok) return failed(ok.error());
  if (what_.empty()) {
    std::printf("%s", list_of_names().c_str());
    return 0;
  }
  const auto made = [&]() -> core::result<plan::pipeline_table> {
    if (what_.ends_with(".csv")) {
      TROUPE_ASSIGN(const auto text, core::read_file(what_, plan::max_table_bytes));
      return plan::read_table(text, what_);
    }
    const uint32_t chunks = std::max(1U, chunks_);
    if (what_ == "search") {
      plan::search_request wanted;
      wanted.ranks = ranks_;
      wanted.micro_batches = micro_batches_;
      wanted.costs = costs_of(ranks_ * chunks, costs_, transfer_);
      TROUPE_ASSIGN(auto found, plan::search_schedule(wanted));
      return std::move(found.table);
    }
    TROUPE_ASSIGN(const auto named, plan::find_schedule(what_));
    const uint32_t wanted = chunks_ == 0 ? std::max(1U, named->chunks) : chunks_;
    return plan::make_table(*named, {.ranks = ranks_, .chunks = wanted, .micro_batches = micro_batches_});
  }();
  if (!made) return failed(made.error());
  if (const auto fault = plan::find_fault(*made))
    return failed({core::error_kind::bug, fmt::format("the schedule of rank {}: {}", fault->rank, fault->text)});
  if (command_->count("--units") > 0 && units_ < made->stages())
    return failed({core::error_kind::bad_input,
                   fmt::format("--units: wanted at least {}, one for each stage, got {}", made->stages(), units_)});
  std::printf("%s", plan::write_table(with_transfers_ ? plan::with_transfers(*made) : *made).c_str());
  show_times(*made, costs_of(made->stages(), costs_, transfer_));
  if (units_ > 0) show_cut(*made, units_);
  return 0;
}

}  // namespace troupe::apps
