// Tries sets of tiers (rungs) from the cheapest on until a rank's memory holds the step, for `troupe plan --fit`. Owns
// the order of the rungs. size_search.hpp chooses sizes within a rung, and the generator computes the memory that they
// need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/choose/size_search.hpp"
#include "plan/memory_places.hpp"

namespace troupe::plan {

/// One choice of tiers for the kinds of states, and the step that was found with it.
struct rung {
  std::string name;  ///< the states that leave the device, and the stage if it is not the configured one
  fitted found;
  tier_bytes bytes{};
  std::string refusal;  ///< reason why there is no plan for these tiers; empty if there is one
};

struct tier_ladder {
  std::vector<rung> rungs;          ///< tried tiers, the cheapest first
  std::optional<size_t> chosen;     ///< index of the first rung within the memory limits; none: no rung
  std::optional<size_t> smallest;   ///< index of the rung that needs least memory; none if all are refused
  std::string largest_unit;         ///< name of the unit with the most parameters
  uint64_t largest_unit_bytes = 0;  ///< bytes of the largest unit's parameters when they are gathered
};

/// Tries the rungs; the configured tiers are ignored. The order is: everything on the device; optimizer states on the
/// host; also parameters on the host; optimizer states in files and the rest on the device; also gradients in files;
/// also parameters in files; also activations in files (if all memory is limited). Below stage 3, parameters are on the
/// device and the rungs continue at stage 3. On every rung the sizes that the request leaves open are chosen.
tier_ladder try_tiers(const fit_request& request);

}  // namespace troupe::plan
