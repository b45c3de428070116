#include "job/compression/module_choice.hpp"

#include "config/sections/name_pattern.hpp"

namespace troupe::job {

tl::unexpected<core::error> refused(const std::string& where, const std::string& key, const std::string& text) {
  return core::fail(core::error_kind::bad_input, (where.empty() ? "" : where + ": ") + key + ": " + text);
}

namespace {

/// True for a layer of the teacher. The teacher's head is in a unit of the model, so its parameter decides.
bool is_of_teacher(const core::model_table& table, const core::layer_info& l) {
  return l.unit < table.teacher_units || (l.weight && table.parameters[*l.weight].of_teacher);
}

}  // namespace

core::result<std::vector<size_t>> layers_found(const std::string& pattern, const core::model_table& table) {
  std::vector<std::string> names;
  for (const auto& l : table.layers) names.push_back(l.name);
  TROUPE_ASSIGN(const auto in, config::searched_in(pattern == "*" ? "" : pattern, names));
  std::vector<size_t> out;
  for (size_t i = 0; i < table.layers.size(); ++i)
    if (in[i] && !is_of_teacher(table, table.layers[i])) out.push_back(i);
  return out;
}

}  // namespace troupe::job
