#include "tests/sim/processes_scenario.hpp"

#include <random>

#include "tests/sim/small_plans.hpp"

namespace troupe::sim {

processes_scenario processes_scenario_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  processes_scenario out;
  processes_options& s = out.options;
  s.seed = seed;
  s.processes = static_cast<uint32_t>(2 + random() % 3);
  s.spares = static_cast<uint32_t>(random() % 2);
  s.ranks_each = random() % 4 == 0 ? 2 : 1;
  out.stage = static_cast<uint32_t>(random() % 4);
  s.steps = 8 + random() % 16;
  const uint64_t troubles = random() % 6;
  for (uint64_t i = 0; i < troubles; ++i) {
    trouble t;
    const auto kind = random() % (4 * num_trouble_kinds);
    t.kind = static_cast<trouble_kind>(kind % num_trouble_kinds);
    // Executor errors are rare, because each of them ends the run, and most runs should end without an error.
    if (t.kind == trouble_kind::executor_error && kind >= num_trouble_kinds) t.kind = trouble_kind::killed;
    t.place = static_cast<uint32_t>(random() % (s.processes + s.spares));
    // `within` is a separate variable, because a compiler may evaluate either side of % first.
    const uint64_t within = random() % 4 == 0 ? 60 : 600;
    t.after_messages = random() % within;
    t.duration_ns = static_cast<int64_t>(random() % 20) * s.lost_after.count() / 10;
    s.troubles.push_back(t);
  }
  return out;
}

job_record play_processes(const processes_scenario& s) {
  return processes_world([stage = s.stage](uint32_t data) { return small_plans(data, stage); }, s.options).run().log();
}

}  // namespace troupe::sim
