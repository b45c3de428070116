#include "actors/loading/travelling_load.hpp"

#include <map>
#include <memory>
#include <string>

namespace troupe::actors {
namespace {

/// Copies the options that load_options and the message wanted_load store in fields of the same name.
template <class From, class To>
void copy_options(const From& from, To& to) {
  to.tag = from.tag;
  to.load_module_strict = from.load_module_strict;
  to.load_optimizer_states = from.load_optimizer_states;
  to.load_lr_scheduler_states = from.load_lr_scheduler_states;
  to.load_module_only = from.load_module_only;
  to.load_from_fp32_weights = from.load_from_fp32_weights;
  to.pipeline_loading_checkpoint = from.pipeline_loading_checkpoint;
  to.swap_batch_bytes = from.swap_batch_bytes;
  to.fallback_to_previous = from.fallback_to_previous;
  to.dequantise = from.dequantise;
  to.changed_batch = from.changed_batch;
  to.changed_seed = from.changed_seed;
  to.changed_data = from.changed_data;
  to.left_out = from.left_out;
}

}  // namespace

wanted_load travelling(const std::filesystem::path& path, const load_options& options, const core::model_table& whole) {
  wanted_load out;
  copy_options(options, out);
  out.path = path.string();
  out.map = options.map.string();
  out.has_names = static_cast<bool>(options.custom_load_fn);
  if (out.has_names)
    for (const auto& p : whole.parameters)
      if (!p.is_copy()) out.names.push_back({p.name, options.custom_load_fn(p)});
  return out;
}

load_options arrived(const wanted_load& told) {
  load_options out;
  copy_options(told, out);
  out.map = told.map;
  if (!told.has_names) return out;
  const auto names = std::make_shared<std::map<std::string, std::optional<std::string>>>();
  for (const auto& x : told.names) names->emplace(x.parameter, x.name);
  out.custom_load_fn = [names](const core::parameter_info& p) {
    const auto at = names->find(p.name);
    return at == names->end() ? std::optional<std::string>() : at->second;
  };
  return out;
}

}  // namespace troupe::actors
