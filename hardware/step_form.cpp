#include "hardware/step_form.hpp"

#include <algorithm>

namespace troupe::hardware {
namespace {

constexpr step_form all_step_forms[] = {
    {"released_runs", true, true, false}, {"allocated_runs", true, true, false}, {"rated_runs", false, false, false},
    {"iterations", false, false, false},  {"sharded_runs", true, false, true},   {"dated_runs", false, false, false},
};

}  // namespace

std::span<const step_form> step_forms() { return all_step_forms; }

std::vector<std::string_view> step_form_names() {
  std::vector<std::string_view> out;
  for (const auto& form : all_step_forms) out.push_back(form.table);
  return out;
}

const step_form* step_form_of(const stack& of) {
  for (const auto& form : all_step_forms)
    if (std::ranges::find(of.tables, form.table) != of.tables.end()) return &form;
  return nullptr;
}

}  // namespace troupe::hardware
