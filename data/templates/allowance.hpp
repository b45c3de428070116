// Limits of a template, and the count of what one rendering has used of them. A template comes from a model's folder,
// so that nobody has checked that it ends.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "core/error.hpp"

namespace troupe::data::templates {

/// Largest template, in bytes.
inline constexpr size_t largest_template = size_t{4} << 20;
/// Deepest nesting of the parts of an expression, and of statements, in a template.
inline constexpr uint32_t deepest_syntax = 150;
/// Largest number of parts of expressions and of statements that may be in progress at one time.
inline constexpr uint32_t deepest_evaluation = 600;
/// Deepest nesting of lists and mappings in values.
inline constexpr uint32_t deepest_value = 120;
/// Largest text that a template may make, and largest rendered text, in bytes.
inline constexpr size_t largest_text = size_t{16} << 20;
/// Largest number of items of a list or mapping that a template makes.
inline constexpr size_t most_items = 1'000'000;
/// Largest number of items of a `range`, which is that of Jinja's sandbox.
inline constexpr int64_t most_range_items = 100'000;
/// Largest number of steps of one rendering: evaluated parts, items, and blocks of 32 bytes of text.
inline constexpr uint64_t most_steps = 5'000'000;

/// Counts the steps of one rendering.
class allowance {
 public:
  /// Counts `steps`. Fails if the rendering has used all its steps.
  core::result<void> take(uint64_t steps) {
    used_ += steps;
    if (used_ <= most_steps) return {};
    return core::fail(core::error_kind::limit, fmt::format("rendering takes more than {} steps", most_steps));
  }

  /// Counts the making of a text of `bytes`. Fails if that is too large.
  core::result<void> take_text(size_t bytes) {
    if (bytes > largest_text)
      return core::fail(core::error_kind::limit, fmt::format("a text of more than {} bytes", largest_text));
    return take(bytes / 32 + 1);
  }

  /// Counts the making of a list or mapping of `items`. Fails if that is too large.
  core::result<void> take_items(size_t items) {
    if (items > most_items)
      return core::fail(core::error_kind::limit, fmt::format("a list of more than {} items", most_items));
    return take(items + 1);
  }

 private:
  uint64_t used_ = 0;
};

}  // namespace troupe::data::templates
