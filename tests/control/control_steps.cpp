// Runs steps whose instructions do no work, to measure the cost of control alone. Usage: control_steps RANKS UNITS
// STEPS. Prints one JSON object: the instructions of a step on all ranks, and the seconds of each part of control's
// work with a plan. `valgrind --tool=callgrind --collect-atstart=no --toggle-collect=count_steps` counts only the
// steps.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/clock.hpp"
#include "plan/check/check.hpp"
#include "plan/generate/generate.hpp"
#include "plan/layout/sets.hpp"
#include "tests/control/idle_company.hpp"

using namespace troupe;

/// Runs the steps that callgrind counts: all but the first, which allocates memory that later steps reuse.
extern "C" [[gnu::noinline]] bool count_steps(actors::idle_company& company, uint64_t steps) {
  for (uint64_t s = 0; s < steps; ++s)
    if (!company.step()) return false;
  return true;
}

namespace {

/// Returns units of two segments with the parameters of a transformer block. The sizes are chosen so that a step
/// contains every kind of work: early gathers, releases, and one bucket and one sub-group for each unit.
std::shared_ptr<const core::model_table> table_of(uint32_t units) {
  core::model_table t;
  for (uint32_t u = 0; u < units; ++u) {
    core::unit_info x;
    x.name = std::string("block ").append(fmt::to_string(u));
    for (const char* name : {"attention", "mlp"}) {
      core::segment_info s{name, {}, 1e6, 4096};
      for (int64_t n : {64, 64, 4096, 64}) {
        s.parameters.push_back(static_cast<uint32_t>(t.parameters.size()));
        x.parameters.push_back(s.parameters.back());
        t.parameters.push_back({std::string("p").append(fmt::to_string(t.parameters.size())), {n}});
      }
      x.segments.push_back(std::move(s));
    }
    t.units.push_back(std::move(x));
  }
  return std::make_shared<const core::model_table>(std::move(t));
}

uint64_t number(const char* text) { return std::strtoull(text, nullptr, 10); }

double seconds_since(int64_t& before) {
  const int64_t now = core::now_ns();
  return double(now - std::exchange(before, now)) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t ranks = argc == 4 ? number(argv[1]) : 0, units = argc == 4 ? number(argv[2]) : 0;
  const uint64_t steps = argc == 4 ? number(argv[3]) : 0;
  if (ranks < 1 || ranks > 64 || units < 1 || units > 1024 || steps < 1) {
    std::fprintf(stderr, "usage: control_steps RANKS (1 to 64) UNITS (1 to 1024) STEPS\n");
    return 2;
  }
  plan::plan_options o;
  o.mesh = core::data_mesh(static_cast<uint32_t>(ranks));
  o.stage = 3;
  o.gradients.reduce_bucket = o.updates.allgather_bucket = o.updates.sub_group = o.gathering.prefetch_bucket = 8'000;
  o.gathering.persistence_threshold = 0;
  o.gathering.max_reuse_distance = 0;
  const auto table = table_of(static_cast<uint32_t>(units));
  std::vector<std::shared_ptr<const plan::rank_plan>> plans;
  int64_t now = core::now_ns();
  uint64_t instructions = 0;
  const auto layout = plan::make_layout(table, o);
  if (!layout) return std::fprintf(stderr, "%s\n", layout.error().text.c_str()), 1;
  for (uint32_t r = 0; r < ranks; ++r) {
    plans.push_back(*plan::generate(*layout, r));
    instructions += plans.back()->instructions.size();
  }
  const double generate_s = seconds_since(now);
  if (auto ok = plan::check(plans); !ok) return std::fprintf(stderr, "%s\n", ok.error().text.c_str()), 1;
  const double check_s = seconds_since(now);
  actors::idle_company company(plans);
  bool well = company.step();
  const double open_s = seconds_since(now);
  well = well && count_steps(company, steps);
  const double step_s = seconds_since(now) / double(steps);
  std::printf(
      "{\"ranks\":%llu,\"units\":%llu,\"instructions\":%llu,\"generate_s\":%.9f,\"check_s\":%.9f,\"open_s\":%.9f,"
      "\"step_s\":%.9f}\n",
      static_cast<unsigned long long>(ranks), static_cast<unsigned long long>(units),
      static_cast<unsigned long long>(instructions), generate_s, check_s, open_s, step_s);
  return well ? 0 : 1;
}
