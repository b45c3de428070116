#include "core/shard_optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/text.hpp"
#include "core/training_types.hpp"

namespace troupe::core {

result<void> check_states(const shard_optimizer& rule) {
  constexpr size_t longest = 64;
  constexpr std::array<std::string_view, 3> taken{average_state, "step", "fp32"};
  const auto names = rule.state_names();
  if (names.size() > shard_states_max)
    return refused(fmt::format("shard_optimizer: wanted at most {} states, got {}", shard_states_max, names.size()));
  const auto is_sign = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i];
    if (name.empty() || name.size() > longest || !std::ranges::all_of(name, is_sign))
      return refused(
          fmt::format("shard_optimizer: wanted a state's name of 1 to {} lower-case letters, digits and "
                      "underscores, got '{}'",
                      longest, shown(name)));
    if (std::ranges::count(taken, name) > 0)
      return refused(
          fmt::format("shard_optimizer: wanted another name of a state than '{}', by which checkpoints know the "
                      "average of the weights, the number of updates or the fp32 weights",
                      name));
    if (std::ranges::count(names.first(i), name) > 0)
      return refused(fmt::format("shard_optimizer: wanted states of different names, got '{}' twice", name));
  }
  return {};
}

}  // namespace troupe::core
