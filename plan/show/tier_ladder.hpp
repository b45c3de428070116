// Tries tiers from the cheapest on until a rank's memory holds the step, for `troupe plan --fit`. Owns the order of the
// rungs and the words; fit.hpp chooses sizes within a rung, the generator tells the memory they need.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/choose/fit.hpp"
#include "plan/memory_places.hpp"

namespace troupe::plan {

struct rung {        ///< one set of tiers
  std::string name;  ///< what leaves the device, and the stage if it is not the configured one
  fitted found;
  tier_bytes bytes{};
  std::string refusal;  ///< why there is no such plan; empty if there is
};

struct tier_ladder {
  std::vector<rung> rungs;          ///< from the cheapest on
  std::optional<size_t> chosen;     ///< the first that fits
  std::optional<size_t> smallest;   ///< the one that needs least memory; none if all are refused
  std::string largest_unit;         ///< the one with the most parameters
  uint64_t largest_unit_bytes = 0;  ///< of its parameters when they are whole
};

/// The configured tiers are ignored. In order: nothing, optimizer states on the host, parameters on the host, optimizer
/// states in files, gradients too, parameters too, activations too (if all memory is limited). Below stage 3,
/// parameters stay on the device and the rungs continue at stage 3. On every rung the sizes that the request leaves
/// open are chosen.
tier_ladder try_tiers(const fit_request& request);

/// A line per rung: memory by tier, the step, what a rank reads and writes, whether it fits or what is missing; below,
/// the verdict. Where nothing fits it names the largest unit and the smallest budget that works.
std::string as_text(const tier_ladder& ladder, const fit_request& request);

/// The sections to paste, YAML, for the chosen rung; swap files go to `folder`.
std::string as_yaml(const fitted& chosen, const std::string& folder);

}  // namespace troupe::plan
