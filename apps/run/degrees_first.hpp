// Chooses the open degrees of a job of several processes before they start, in a process that ends afterwards: it alone
// loads LibTorch and tries ways. Owns how that process is started and what it hands over. Leaves the choice to
// session::choose_degrees.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// Environment variable of the choosing process: the descriptor that it writes to.
inline constexpr const char* degrees_variable = "TROUPE_DEGREES";

/// Runs `program` with these arguments until it has chosen. Returns values for `--set` that contain its degrees, or the
/// process's exit code if it failed; it has then printed why.
std::variant<std::vector<std::string>, int> choose_degrees_first(const std::filesystem::path& program,
                                                                 const std::vector<std::string>& arguments);

/// Returns the keys of the degrees that the file leaves open.
std::vector<std::string> open_degrees_of(const config::loaded& loaded);

/// In the choosing process, writes the degrees of these keys to the process that started it, stores `measured` in the
/// run's folder, and returns the exit code. Returns nothing in a process that was started to train.
std::optional<int> hand_over_degrees(const std::vector<std::string>& keys, const config::loaded& taken,
                                     const std::string& measured);

}  // namespace troupe::apps
