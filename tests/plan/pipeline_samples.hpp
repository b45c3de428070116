// Provides options of a model that is cut into pipeline stages, for tests of plans and of the code that reads them.
#pragma once

#include <string>

#include "plan/schedule/named.hpp"
#include "tests/plan/samples.hpp"

namespace troupe::plan {

/// Returns options that cut `units` units evenly into the stages of a schedule of `ranks` x `chunks`, with four
/// micro-batches and two data ranks for each stage.
inline plan_options options_of_pipeline(const std::string& schedule, uint32_t ranks, uint32_t chunks = 1,
                                     uint32_t stage = 3, uint32_t units = 6) {
  auto o = small_options(2, stage, 4);
  o.mesh = {{core::axis::pipeline, ranks}, {core::axis::shard, 2}};
  const auto known = find_schedule(schedule);
  BOOST_REQUIRE_MESSAGE(known.has_value(), (known ? "" : known.error().text));
  auto made = make_table(**known, {.ranks = ranks, .chunks = chunks, .micro_batches = 4});
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
  for (uint32_t k = 0; k < made->stages(); ++k) o.pipeline.first_unit.push_back(k * units / made->stages());
  o.pipeline.table = std::move(*made);
  return o;
}

}  // namespace troupe::plan
