#include "core/tied_copies.hpp"

#include <algorithm>
#include <map>

namespace troupe::core {
namespace {

constexpr uint32_t nobody = 0xFFFFFFFF;

void rename(std::vector<uint32_t>& parameters, const std::map<uint32_t, uint32_t>& to) {
  for (uint32_t& q : parameters)
    if (const auto found = to.find(q); found != to.end()) q = found->second;
}

void rename(std::optional<uint32_t>& parameter, const std::map<uint32_t, uint32_t>& to) {
  if (!parameter) return;
  if (const auto found = to.find(*parameter); found != to.end()) parameter = found->second;
}

}  // namespace

model_table with_copies(model_table table) {
  std::vector<uint32_t> first(table.parameters.size(), nobody);  // [parameter]: first unit that reads it
  for (uint32_t u = 0; u < table.units.size(); ++u) {
    unit_info& unit = table.units[u];
    std::map<uint32_t, uint32_t> copies;  // [index of a parameter that several units read]: index of the copy that this
                                          // unit reads instead
    for (const uint32_t q : unit.parameters) {
      // Another segment of the same unit reads the parameter, so the unit already has a copy.
      if (copies.contains(q)) continue;
      if (first[q] == nobody) first[q] = u;
      if (first[q] == u) continue;
      copies.emplace(q, static_cast<uint32_t>(table.parameters.size()));
      parameter_info copy = table.parameters[q];
      copy.name += " (" + unit.name + ")";
      copy.copy_of = table.original(q);
      table.parameters.push_back(std::move(copy));
    }
    if (copies.empty()) continue;
    rename(unit.parameters, copies);
    for (auto& s : unit.segments) rename(s.parameters, copies);
    for (auto& l : table.layers) {
      if (l.unit != u) continue;
      rename(l.parameters, copies);
      rename(l.weight, copies);
      rename(l.bias, copies);
    }
  }
  return table;
}

bool has_copies(const model_table& table) { return std::ranges::any_of(table.parameters, &parameter_info::is_copy); }

bool has_shared(const model_table& table) {
  std::vector<uint32_t> first(table.parameters.size(), nobody);
  for (uint32_t u = 0; u < table.units.size(); ++u)
    for (const uint32_t q : table.units[u].parameters) {
      if (first[q] == nobody) first[q] = u;
      if (first[q] != u) return true;
    }
  return false;
}

std::vector<std::vector<uint32_t>> uses_of_tied(const model_table& table) {
  std::map<uint32_t, std::vector<uint32_t>> copies;  // [index of a parameter that several units read]: indices of its
                                                     // copies
  for (uint32_t q = 0; q < table.parameters.size(); ++q)
    if (table.parameters[q].is_copy()) copies[table.original(q)].push_back(q);
  std::vector<std::vector<uint32_t>> out;
  for (auto& [original, all] : copies) {
    out.push_back({original});
    out.back().insert(out.back().end(), all.begin(), all.end());
  }
  return out;
}

}  // namespace troupe::core
