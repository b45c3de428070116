// Provides pipeline schedules, their costs and fixtures for tests.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "plan/schedule/named.hpp"
#include "plan/schedule/text.hpp"
#include "plan/schedule/timing.hpp"
#include "tests/places.hpp"

namespace troupe::plan {

inline pipeline_table named_table(std::string_view name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                                  uint32_t group = 0) {
  const auto schedule = find_schedule(name);
  BOOST_REQUIRE(schedule.has_value());
  auto table = make_table(**schedule, {ranks, chunks, micro_batches, group});
  BOOST_REQUIRE_MESSAGE(table.has_value(), name << ": " << (table ? "" : table.error().text));
  return std::move(*table);
}

/// Returns equal costs for all stages. Each stage keeps one byte from the start of F (forward) to the end of B
/// (backward) or I (its input part), and one from the end of I to the end of W (its weight part).
inline pipeline_costs even_costs(uint32_t stages, double f, double b, double w, double transfer_s = 0) {
  return {std::vector<stage_cost>(stages, {f, b, w, 1, 1}), transfer_s};
}

/// Returns the content of a file that tests/peer/make_pipeline_fixtures.py wrote.
inline std::string pipeline_fixture(const std::string& name) {
  std::ifstream file((std::string(troupe::places::source_dir) + "/tests/plan/fixtures/pipeline_schedules/") + name, std::ios::binary);
  BOOST_REQUIRE_MESSAGE(file.good(), name);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace troupe::plan
