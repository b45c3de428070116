#include "actors/hands/flight.hpp"

#include <ATen/ops/isfinite.h>

#include <algorithm>

namespace troupe::actors {

std::string first_nonfinite(const core::model_table& table, const models::parameter_binding& parameters,
                            std::span<const flight> left) {
  const auto finite = [](const at::Tensor& t) { return !t.defined() || at::isfinite(t).all().item().toBool(); };
  const auto all_finite = [&](const models::values& all) { return std::ranges::all_of(all, finite); };
  const auto& units = table.units;
  for (size_t u = 0; u < units.size(); ++u) {
    for (uint32_t q : units[u].parameters)
      if (parameters.bound(q) && !finite(parameters.tensor(q)))
        return "first seen in parameter " + units[u].name + " (" + table.parameters[q].name + ")";
    for (const flight& f : left) {
      for (size_t s = 0; s < f.runs[u].size(); ++s)
        if (f.runs[u][s] && !all_finite(f.runs[u][s]->outputs()))
          return "first seen in the output of " + units[u].name + " " + units[u].segments[s].name;
      if (!all_finite(f.unit_inputs[u])) return "first seen in the input of " + units[u].name;
    }
  }
  return "every activation before it that is still in memory is finite";
}

}  // namespace troupe::actors
