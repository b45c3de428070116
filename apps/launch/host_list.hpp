// Lists as Slurm writes them: names with ranges in brackets, and numbers with how often each comes. Owns the reading.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cells.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// More names or numbers than that are refused.
inline constexpr size_t listed_max = 65'536;

/// Of a text that is one and nothing else.
inline std::optional<uint32_t> number_in(std::string_view text) {
  uint32_t out = 0;
  return core::read_number(text, out) ? std::optional(out) : std::nullopt;
}
/// "n[1-3,05],gpu1" as n1, n2, n3, n05, gpu1; a name may hold several brackets. Errors: bad_input.
core::result<std::vector<std::string>> expand_host_list(std::string_view text);
/// "2(x3),1" as 2, 2, 2, 1. Errors: bad_input.
core::result<std::vector<uint32_t>> expand_counts(std::string_view text);
/// A machine's name as it may stand in an argument of another program: letters, digits and `.-:_`, not beginning with
/// `-`. Errors: bad_input.
core::result<void> check_host_name(std::string_view name);

}  // namespace troupe::apps
