// Reads the values that a sweep gives to keys, and enumerates its points. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

/// Largest number of points of a sweep.
inline constexpr uint64_t sweep_points_max = 1'000'000;

/// A key of the job, and the values that a sweep gives to it.
struct sweep_axis {
  std::string key;
  std::vector<std::string> values;
};

/// Reads `KEY=VALUES`: values separated by commas, where FROM:TO and FROM:TO:BY stand for integers. Commas and colons
/// within brackets, braces and quotes belong to a value. Refused: another form, an unknown key with the nearest one, a
/// value or number given twice, more values than sweep_points_max.
core::result<sweep_axis> read_axis(std::string_view text);

/// Returns true if `key` is the key `section`, or one of that section.
bool is_within(std::string_view key, std::string_view section);

/// Returns the number of points of the axes together. Refused: a key that two of them vary, more than sweep_points_max.
core::result<uint64_t> points_of(std::span<const sweep_axis> axes);

/// Refuses an axis whose key one of the assignments `KEY=VALUE` sets, too; and one of data ranks if `sets_ranks`, since
/// --ranks sets these.
core::result<void> check_free(std::span<const sweep_axis> axes, std::span<const std::string> set, bool sets_ranks);

/// Returns the overrides of a point, `KEY=VALUE` for each axis; the last axis varies fastest.
std::vector<std::string> overrides_at(std::span<const sweep_axis> axes, uint64_t point);

}  // namespace troupe::apps
