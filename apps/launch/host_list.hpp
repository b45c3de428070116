// Parses lists in Slurm's form: names with ranges in brackets, and numbers with repeat counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

/// Limit of the names or numbers in a list; longer lists are refused.
inline constexpr size_t listed_max = 65'536;

/// Expands "n[1-3,05],gpu1" to n1, n2, n3, n05, gpu1; a name may have several brackets. Errors: bad_input.
core::result<std::vector<std::string>> expand_host_list(std::string_view text);
/// Expands "2(x3),1" to 2, 2, 2, 1. Errors: bad_input.
core::result<std::vector<uint32_t>> expand_counts(std::string_view text);
/// Checks that a machine's name is safe as an argument of another program: letters, digits and `.-:_`, not beginning
/// with `-`. Errors: bad_input.
core::result<void> check_host_name(std::string_view name);

}  // namespace troupe::apps
