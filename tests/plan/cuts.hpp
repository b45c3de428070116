// Models cut into stages, evenly or at random, for tests of plans and of what runs them.
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

/// TROUPE_SEEDS, or as many as usual.
inline uint64_t seeds(uint64_t usual) {
  const char* more = std::getenv("TROUPE_SEEDS");
  return more == nullptr ? usual : std::strtoull(more, nullptr, 10);
}

/// Stages of as many units each, or nearly.
inline pipeline_options cut_evenly(const core::model_table& table, pipeline_table schedule) {
  pipeline_options out;
  const auto units = static_cast<uint32_t>(table.units.size()), stages = schedule.stages();
  BOOST_REQUIRE(stages <= units);
  for (uint32_t k = 0; k < stages; ++k) out.first_unit.push_back(k * units / stages);
  out.table = std::move(schedule);
  return out;
}

/// Forward alone, micro-batch after micro-batch, for stages that lie anywhere.
inline pipeline_table forward_table(std::vector<uint32_t> rank_of_stage, uint32_t ranks, uint32_t micros) {
  pipeline_table out{micros, std::move(rank_of_stage), std::vector<std::vector<action>>(ranks)};
  for (uint32_t m = 0; m < micros; ++m)
    for (uint32_t k = 0; k < out.stages(); ++k)
      out.orders[out.rank_of_stage[k]].push_back({action_type::forward, k, m});
  return out;
}

/// An order of nobody's: of all actions that could be next anywhere, any. Each stage keeps the order of micro-batches;
/// some backwards are split in two.
inline pipeline_table random_table_of(std::vector<uint32_t> rank_of_stage, uint32_t ranks, uint32_t micros,
                                      std::mt19937_64& random) {
  pipeline_table out{micros, std::move(rank_of_stage), std::vector<std::vector<action>>(ranks)};
  const uint32_t stages = out.stages();
  const bool splits = random() % 2 == 0;
  std::vector<uint32_t> forwards(stages, 0), backwards(stages, 0), weights(stages, 0), ready;
  for (;;) {
    ready.clear();  // stage * 3 + part
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

/// The same, whose stages leave the order of micro-batches, too, each part of them in its own way.
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

/// A named schedule of any chunks, or an order of nobody's on stages that lie anywhere; at most as many as `units`.
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

/// Options of a job without a pipeline become those of one with stages at random places, of at most 8 ranks. What
/// cannot be cut this way is refused by make_layout. A teacher's units are cut with the model's.
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

/// The same cut for another kind of step, which computes forward alone if at all.
inline void only_forward(plan_options& o, uint32_t micros) {
  o.accumulation = micros;
  if (o.pipeline.first_unit.empty()) return;
  const auto& t = o.pipeline.table;
  o.pipeline.table = forward_table(t.rank_of_stage, t.ranks(), micros);
}

/// A model of these and a random cut of it that can be planned; uses of a tied parameter may have gradients of their
/// own.
template <class AnyTable>
std::pair<shared_table, plan_options> random_cut_of(AnyTable any_table, std::mt19937_64& random,
                                                    std::optional<mode> of) {
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
