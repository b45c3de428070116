// Cuts models into pipeline stages, evenly or at random, for tests of plans and of the code that runs them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "plan/schedule/named.hpp"
#include "tests/plan/tied_samples.hpp"

namespace troupe::plan {

/// Returns the value of the environment variable TROUPE_SEEDS, or `usual` if it is not set.
inline uint64_t seeds(uint64_t usual) {
  const char* more = std::getenv("TROUPE_SEEDS");
  return more == nullptr ? usual : std::strtoull(more, nullptr, 10);
}

/// Returns a pipeline whose stages have equal numbers of units, or numbers that differ by one.
inline pipeline_options cut_evenly(const core::model_table& table, pipeline_table schedule) {
  pipeline_options out;
  const auto units = static_cast<uint32_t>(table.units.size()), stages = schedule.stages();
  BOOST_REQUIRE(stages <= units);
  for (uint32_t k = 0; k < stages; ++k) out.first_unit.push_back(k * units / stages);
  out.table = std::move(schedule);
  return out;
}

/// Returns a schedule of forwards only, in ascending order of micro-batches, for stages on any ranks.
inline pipeline_table forward_table(std::vector<uint32_t> rank_of_stage, uint32_t ranks, uint32_t micros) {
  pipeline_table out{micros, std::move(rank_of_stage), std::vector<std::vector<action>>(ranks)};
  for (uint32_t m = 0; m < micros; ++m)
    for (uint32_t k = 0; k < out.stages(); ++k)
      out.orders[out.rank_of_stage[k]].push_back({action_type::forward, k, m});
  return out;
}

/// Returns a random schedule: each step appends a random one of the actions that are possible next. Each stage
/// processes the micro-batches in ascending order. In half of the schedules every backward is split in two.
inline pipeline_table random_table_of(std::vector<uint32_t> rank_of_stage, uint32_t ranks, uint32_t micros,
                                      std::mt19937_64& random) {
  pipeline_table out{micros, std::move(rank_of_stage), std::vector<std::vector<action>>(ranks)};
  const uint32_t stages = out.stages();
  const bool splits = random() % 2 == 0;
  std::vector<uint32_t> forwards(stages, 0), backwards(stages, 0), weights(stages, 0), ready;
  for (;;) {
    ready.clear();  // each element is stage * 3 + part
    for (uint32_t k = 0; k < stages; ++k) {
      if (forwards[k] < (k == 0 ? micros : forwards[k - 1])) ready.push_back(3 * k);
      if (backwards[k] < (k + 1 == stages ? forwards[k] : std::min(forwards[k], backwards[k + 1])))
        ready.push_back(3 * k + 1);
      if (splits && weights[k] < backwards[k]) ready.push_back(3 * k + 2);
    }
    if (ready.empty()) return out;
    const uint32_t next = ready[random() % ready.size()], k = next / 3;
    auto& order = out.orders[out.rank_of_stage[k]];
    if (next % 3 == 0) order.push_back({action_type::forward, k, forwards[k]++});
    if (next % 3 == 1)
      order.push_back({splits ? action_type::backward_input : action_type::backward, k, backwards[k]++});
    if (next % 3 == 2) order.push_back({action_type::backward_weight, k, weights[k]++});
  }
}

/// Returns a random schedule whose stages process micro-batches in any order; the forward, backward and weight parts of
/// a stage have different orders. In half of the schedules every backward is split in two.
inline pipeline_table shuffled_table_of(std::vector<uint32_t> rank_of_stage, uint32_t ranks, uint32_t micros,
                                        std::mt19937_64& random) {
  pipeline_table out{micros, std::move(rank_of_stage), std::vector<std::vector<action>>(ranks)};
  const uint32_t stages = out.stages();
  const bool splits = random() % 2 == 0;
  const auto backward = splits ? action_type::backward_input : action_type::backward;
  std::vector<bool> forwards(size_t{stages} * micros, false), backwards = forwards, weights = forwards;
  for (std::vector<action> ready;; ready.clear()) {
    for (uint32_t k = 0; k < stages; ++k)
      for (uint32_t m = 0; m < micros; ++m) {
        const uint32_t at = k * micros + m;
        if (!forwards[at] && (k == 0 || forwards[at - micros])) ready.push_back({action_type::forward, k, m});
        if (forwards[at] && !backwards[at] && (k + 1 == stages || backwards[at + micros]))
          ready.push_back({backward, k, m});
        if (splits && backwards[at] && !weights[at]) ready.push_back({action_type::backward_weight, k, m});
      }
    if (ready.empty()) return out;
    const action a = ready[random() % ready.size()];
    out.orders[out.rank_of_stage[a.stage]].push_back(a);
    (a.type == action_type::forward ? forwards
     : a.type == backward           ? backwards
                                    : weights)[a.stage * micros + a.micro] = true;
  }
}

/// Returns a named schedule with any number of chunks, or a random schedule whose stages are on any ranks. The schedule
/// has at most `units` stages.
inline pipeline_table random_schedule(uint32_t ranks, uint32_t units, uint32_t micros, std::mt19937_64& random) {
  if (random() % 2 == 0) {
    const auto all = named_schedules();
    const auto& s = all[random() % all.size()];
    const uint32_t chunks = s.chunks > 0 ? s.chunks : static_cast<uint32_t>(1 + random() % (units / ranks));
    const auto made = make_table(s, {.ranks = ranks, .chunks = chunks, .micro_batches = micros});
    if (made && trains(*made) && made->stages() <= units) return *made;
  }
  std::vector<uint32_t> lies(ranks + random() % (units - ranks + 1));
  for (uint32_t k = 0; k < lies.size(); ++k) lies[k] = k < ranks ? k : static_cast<uint32_t>(random() % ranks);
  std::ranges::shuffle(lies, random);
  return (random() % 2 == 0 ? shuffled_table_of : random_table_of)(std::move(lies), ranks, micros, random);
}

/// Changes the options of a job without a pipeline into those of a job with stages at random units, on at most 8 ranks.
/// make_layout refuses options that cannot be cut this way. Each stage begins at a unit of the model; make_layout
/// assigns each teacher unit to the stage of the model unit that it is computed with.
inline void cut_at_random(plan_options& o, const core::model_table& table, std::mt19937_64& random) {
  const auto units = static_cast<uint32_t>(table.units.size()) - table.teacher_units;
  const auto ranks = static_cast<uint32_t>(2 + random() % std::min<uint32_t>(3, units - 1));
  const auto data = static_cast<uint32_t>(1 + random() % (8 / ranks));
  const uint32_t replicas = data % 2 == 0 && random() % 2 == 0 ? 2 : 1;
  o.mesh = {{core::axis::pipeline, ranks}, {core::axis::replicate, replicas}, {core::axis::shard, data / replicas}};
  o.gathering.near = random() % 2 == 0 ? 2 : 0;
  o.accumulation = static_cast<uint32_t>(1 + random() % (2 * ranks));
  o.pipeline = {};
  auto& t = o.pipeline.table = random_schedule(ranks, units, o.accumulation, random);
  if (o.mode != mode::train) t = forward_table(t.rank_of_stage, ranks, o.accumulation);
  std::vector<uint32_t> begins(units - 1);
  for (uint32_t u = 1; u < units; ++u) begins[u - 1] = u;
  std::ranges::shuffle(begins, random);
  begins.resize(t.stages() - 1);
  begins.push_back(0);
  std::ranges::sort(begins);
  for (uint32_t& u : begins) u += table.teacher_units;
  o.pipeline.first_unit = std::move(begins);
}

/// Changes the options to another kind of step that runs at most the forward of `micros` micro-batches, with the same
/// cut.
inline void only_forward(plan_options& o, uint32_t micros) {
  o.accumulation = micros;
  if (o.pipeline.first_unit.empty()) return;
  const auto& t = o.pipeline.table;
  o.pipeline.table = forward_table(t.rank_of_stage, t.ranks(), micros);
}

/// Returns a model of `any_table` and a random cut of it that can be planned. In half of the cases each use of a tied
/// parameter has its own gradient.
std::pair<shared_table, plan_options> random_cut_of(auto any_table, std::mt19937_64& random, std::optional<mode> of) {
  for (;;) {
    const bool by_use = random() % 2 == 0;
    shared_table table = any_table(random);
    if (by_use) table = copied(table);
    auto options = random_options(*table, random);
    follow_originals(*table, options.updates.rules);
    if (by_use) options = per_use(std::move(options));
    if (of) options.mode = *of;
    cut_at_random(options, *table, random);
    if (make_layout(table, options)) return {std::move(table), std::move(options)};
  }
}
inline std::pair<shared_table, plan_options> random_cut(std::mt19937_64& random, std::optional<mode> of = {}) {
  return random_cut_of([](std::mt19937_64& r) { return random_table(r, 3); }, random, of);
}

}  // namespace troupe::plan
