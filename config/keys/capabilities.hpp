// Names of capabilities that Troupe does not have yet, and that some configuration keys need in order to act. Each
// capability has one name, so that all its keys are found when it is added.
#pragma once

#include <string_view>

namespace troupe::config::capability {

inline constexpr std::string_view quantised_communication = "quantised communication (ZeRO++)";
inline constexpr std::string_view processes = "a job of several processes";
inline constexpr std::string_view experts = "expert parallelism";
inline constexpr std::string_view compression = "compression";
inline constexpr std::string_view optimizers = "this optimizer";
inline constexpr std::string_view schedules = "this learning rate schedule";
inline constexpr std::string_view curriculum = "curriculum sampling";
inline constexpr std::string_view layer_drop = "layer drop";
inline constexpr std::string_view autocast = "mixed precision chosen per operation";
inline constexpr std::string_view master_types = "an optimizer with 16-bit master weights and moments";
inline constexpr std::string_view tuning = "the search for settings";
inline constexpr std::string_view host_steps = "control of optimizer steps by a host program";

}  // namespace troupe::config::capability
