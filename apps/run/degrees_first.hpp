// Degrees that a job of several processes leaves open are chosen before there are any of them, by a process that ends
// with that: it alone loads LibTorch and tries ways. Owns how it is started and what it hands over; the choice is
// session::choose_degrees'.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// Of the process that chooses: the descriptor that it writes to.
inline constexpr const char* degrees_variable = "TROUPE_DEGREES";

/// Runs `program` with these arguments until it has chosen. Gives values for `--set` that say its degrees, or the code
/// with which it has ended otherwise; it has said why.
std::variant<std::vector<std::string>, int> choose_degrees_first(const std::filesystem::path& program,
                                                                 const std::vector<std::string>& arguments);

/// The degrees that the file leaves to the run, by key.
std::vector<std::string> open_degrees_of(const config::loaded& loaded);

/// Of the process that chooses: hands `taken`'s degrees of these keys to who has started it and leaves `measured` in
/// the run's folder. Nothing where this process was started for more than that; else its code.
std::optional<int> hand_over_degrees(const std::vector<std::string>& keys, const config::loaded& taken,
                                     const std::string& measured);

}  // namespace troupe::apps
