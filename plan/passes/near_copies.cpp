// Owns the choice of the copy that each gather reads. A unit's first gather of a step reads all shards; neighbouring
// ranks keep the gathered parameters as a second copy, and later gathers read that copy.
#include <fmt/format.h>

#include "plan/passes/passes.hpp"

#include "plan/layout/layout.hpp"

namespace troupe::plan {
std::string gather_near(draft& d, const rank_plan& p) {
  if (!p.options().has_near_copies() || p.options().mode != mode::train) return {};
  const auto units = static_cast<uint32_t>(p.table().units.size());
  std::vector<handle> keeps(units, none);  // [unit]: first release of the unit's parameters
  uint32_t near = 0;
  for (handle x = d.first(); x != none; x = d.next(x)) {
    if (d.is_mark(x)) continue;
    const kind k = d.at(x).kind;
    const uint32_t unit = d.at(x).subject;
    if ((k != kind::gather && k != kind::release) || unit >= units) continue;  // persistent parameters need no copy
    if (k == kind::release && keeps[unit] == none) keeps[unit] = x;
    if (k == kind::release || keeps[unit] == none) continue;
    d.at(x).near = true;
    d.depend(x, keeps[unit]);
    auto& first = d.at(keeps[unit]);
    first.near = true;
    first.moved_bytes = near_elements(p, unit) * core::size_of(p.options().types.parameter);
    ++near;
  }
  return near == 0 ? "" : fmt::format("gathers from neighbours: {}", near);
}

}  // namespace troupe::plan
