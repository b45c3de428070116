// Provides models whose tied parameters have a separate gradient for each use, and pipelines that cut such models, for
// tests of plans.
#pragma once

#include <algorithm>

#include "core/tied_copies.hpp"
#include "plan/schedule/named.hpp"
#include "tests/plan/samples.hpp"

namespace troupe::plan {

inline shared_table copied(const shared_table& table) {
  return std::make_shared<const core::model_table>(core::with_copies(*table));
}

inline plan_options per_use(plan_options o) {
  o.gradients.tied = tied_gradients::per_use;
  return o;
}

/// Returns options that cut the units evenly into the stages of the named `schedule`, which must support this shape.
inline plan_options staged_per_use(const core::model_table& table, const char* schedule, pipeline_shape shape,
                                   uint32_t data, uint32_t stage) {
  auto o = per_use(small_options(data, stage, shape.micro_batches));
  o.mesh = {{core::axis::pipeline, shape.ranks}, {core::axis::shard, data}};
  o.pipeline.table = make_table(*find_schedule(schedule).value(), shape).value();
  const auto units = static_cast<uint32_t>(table.units.size()), stages = o.pipeline.table.stages();
  BOOST_REQUIRE(stages <= units);
  for (uint32_t k = 0; k < stages; ++k) o.pipeline.first_unit.push_back(k * units / stages);
  return o;
}

/// Returns a model of four units that all read one parameter.
inline shared_table four_uses() {
  table_writer w;
  const uint32_t shared = w.parameter(5000);
  for (int u = 0; u < 4; ++u) w.unit({{shared, w.parameter(3000)}});
  return copied(w.done());
}

/// Sets the update rule of each copy of a tied parameter to that of its original.
inline void follow_originals(const core::model_table& table, std::vector<parameter_update>& rules) {
  for (uint32_t q = 0; q < rules.size(); ++q) rules[q] = rules[table.original(q)];
}

inline const instruction& only(const rank_plan& p, kind k) {
  BOOST_REQUIRE(count(p, k) == 1U);
  return *std::ranges::find(p.instructions, k, &instruction::kind);
}

}  // namespace troupe::plan
