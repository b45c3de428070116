#include "apps/simulate/sweep.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "config/keys/key_table.hpp"
#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

/// Returns the parts of `text` between separators that stand outside of brackets, braces and quotes.
std::vector<std::string_view> parts_between(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  size_t begin = 0, depth = 0;
  char quote = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == separator && depth == 0) {
      out.push_back(core::trimmed(text.substr(begin, at - begin)));
      begin = at + 1;
    }
  }
  out.push_back(core::trimmed(text.substr(begin)));
  return out;
}

/// Adds the integers of FROM:TO or FROM:TO:BY; false if the text has another form.
core::result<bool> add_range(std::string_view text, const std::string& key, std::vector<std::string>& out) {
  const auto parts = parts_between(text, ':');
  if (parts.size() != 2 && parts.size() != 3) return false;
  std::vector<uint64_t> numbers;
  for (const auto part : parts) {
    const auto number = core::number_of<uint64_t>(part);
    if (!number) return false;
    numbers.push_back(*number);
  }
  const uint64_t from = numbers[0], to = numbers[1], by = numbers.size() == 3 ? numbers[2] : 1;
  if (by == 0 || from > to)
    return core::refused(fmt::format("--sweep {}: wanted FROM:TO or FROM:TO:BY with FROM <= TO and BY > 0, got {}", key,
                                     core::shown(std::string(text))));
  if ((to - from) / by >= sweep_points_max)
    return core::refused(fmt::format("--sweep {}: wanted at most {} values, got {} in {}", key, sweep_points_max,
                                     (to - from) / by + 1, core::shown(std::string(text))));
  for (uint64_t n = from;; n += by) {
    out.push_back(fmt::to_string(n));
    if (to - n < by) return true;
  }
}

/// Returns the value as it is compared: numbers of one value have one text.
std::string compared(const std::string& value) {
  const auto number = core::number_of<double>(value);
  return number ? fmt::format("{}", *number) : value;
}

core::result<void> check_key(const std::string& key) {
  const size_t dot = key.rfind('.');
  const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
  const std::string name = dot == std::string::npos ? key : key.substr(dot + 1);
  if (config::key_in(section, name) != nullptr) return {};
  return core::refused(fmt::format("--sweep {}: unknown key; the nearest known one is {}", core::shown(key),
                                   config::nearest_key(section, name)));
}

}  // namespace

core::result<sweep_axis> read_axis(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || core::trimmed(text.substr(equals + 1)).empty())
    return core::refused(fmt::format("--sweep: wanted KEY=VALUES, such as zero_optimization.stage=0:3, got {}",
                                     core::shown(std::string(text))));
  sweep_axis out{std::string(core::trimmed(text.substr(0, equals))), {}};
  TROUPE_TRY(check_key(out.key));
  for (const auto part : parts_between(text.substr(equals + 1), ',')) {
    if (part.empty())
      return core::refused(fmt::format("--sweep {}: a value is empty in {}", out.key, core::shown(std::string(text))));
    TROUPE_ASSIGN(const bool is_range, add_range(part, out.key, out.values));
    if (!is_range) out.values.emplace_back(part);
    if (out.values.size() > sweep_points_max)
      return core::refused(fmt::format("--sweep {}: wanted at most {} values", out.key, sweep_points_max));
  }
  std::map<std::string, std::string> seen;  // [compared()]: the value as typed
  for (const auto& value : out.values) {
    const auto [first, is_new] = seen.try_emplace(compared(value), value);
    if (is_new) continue;
    return core::refused(first->second == value
                             ? fmt::format("--sweep {}: the value {} is given twice", out.key, core::shown(value))
                             : fmt::format("--sweep {}: {} and {} are one value", out.key, core::shown(first->second),
                                           core::shown(value)));
  }
  return out;
}

bool is_within(std::string_view key, std::string_view section) {
  return key == section || (key.starts_with(section) && key[section.size()] == '.');
}

core::result<uint64_t> points_of(std::span<const sweep_axis> axes) {
  double all = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (axes[k].key == axes[i].key)
        return core::refused(fmt::format("--sweep {}: given twice; write all values in one list", axes[i].key));
      if (is_within(axes[k].key, axes[i].key) || is_within(axes[i].key, axes[k].key))
        return core::refused(
            fmt::format("--sweep: {} and {} set the same keys; sweep one of them", axes[k].key, axes[i].key));
    }
    all *= static_cast<double>(axes[i].values.size());
  }
  if (all > static_cast<double>(sweep_points_max))
    return core::refused(fmt::format("--sweep: wanted at most {} points, got {:.0f}", sweep_points_max, all));
  return static_cast<uint64_t>(all);
}

core::result<void> check_free(std::span<const sweep_axis> axes, std::span<const std::string> set, bool sets_ranks) {
  for (const auto& axis : axes) {
    for (const auto& assignment : set) {
      const std::string key(core::trimmed(std::string_view(assignment).substr(0, assignment.find('='))));
      if (is_within(axis.key, key) || is_within(key, axis.key))
        return core::refused(
            fmt::format("--sweep {}: --set {} sets it, too; give one of them", axis.key, core::shown(assignment)));
    }
    for (const char* key : {"parallel.data", "parallel.ranks"})
      if (sets_ranks && is_within(key, axis.key))
        return core::refused(fmt::format("--sweep {}: --ranks sets {}; give one of them", axis.key, key));
  }
  return {};
}

std::vector<std::string> overrides_at(std::span<const sweep_axis> axes, uint64_t point) {
  std::vector<std::string> out(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    const auto& values = axes[i].values;
    out[i] = axes[i].key + "=" + values[point % values.size()];
    point /= values.size();
  }
  return out;
}

}  // namespace troupe::apps
