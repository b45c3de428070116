// Chooses the open degrees of a job of several processes before they start, in a separate process that plans the
// divisions of the ranks, and ends. Owns the start of that process and the transfer of its result. Leaves the
// choice to session::choose_degrees.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// Environment variable of the process that chooses the degrees: number of the descriptor to which it writes them.
inline constexpr const char* degrees_variable = "TROUPE_DEGREES";

/// Runs `program` with `arguments` until it has chosen the degrees. Returns them as values for `--set`, or the
/// program's exit code if it failed; the program has then printed the reason.
std::variant<std::vector<std::string>, int> choose_degrees_first(const std::filesystem::path& program,
                                                                 const std::vector<std::string>& arguments);

/// Returns the keys of the parallel degrees that the configuration leaves open.
std::vector<std::string> open_degrees_of(const config::loaded& loaded);

/// In the process that chooses the degrees, writes the values of `keys` to the process that started it, and returns the
/// exit code. Returns nothing in a process that was started to train.
std::optional<int> hand_over_degrees(const std::vector<std::string>& keys, const config::loaded& taken);

}  // namespace troupe::apps
