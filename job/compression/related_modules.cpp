#include "job/compression/related_modules.hpp"

#include <algorithm>
#include <optional>

#include "job/compression/module_choice.hpp"

namespace troupe::job {
namespace {

using core::layer_info;
using layers = std::vector<const layer_info*>;

bool is_of(const pruned_module& m, const layer_info& l) { return l.unit == m.unit && l.name == m.module; }

layers in_unit(const layers& all, uint32_t unit) {
  layers out;
  std::ranges::copy_if(all, std::back_inserter(out), [&](const layer_info* l) { return l->unit == unit; });
  return out;
}

/// Nothing: it is not clear whose they are.
std::optional<layers> of_module(const pruned_module& m, const layers& pruned, const layers& found) {
  const auto at = std::ranges::find_if(pruned, [&](const layer_info* l) { return is_of(m, *l); });
  const auto place = static_cast<size_t>(at - pruned.begin());
  if (found.size() == pruned.size() && !is_of(m, *found[place])) return layers{found[place]};
  layers others;
  std::ranges::copy_if(found, std::back_inserter(others), [&](const layer_info* l) { return !is_of(m, *l); });
  if (pruned.size() > 1 && !others.empty()) return std::nullopt;
  return others;
}

}  // namespace

std::string related_key(const pruned_module& m) {
  return "compression_training." + std::string(name_of(m.part)) + ".different_groups." + m.group + ".related_modules";
}

core::result<std::vector<const layer_info*>> related_layers(const pruned_module& m, const config::pruned_group& g,
                                                            std::span<const pruned_module> chosen,
                                                            const core::model_table& table, pairing_reach reach) {
  layers out;
  for (size_t i = 0; i < g.related.size(); ++i) {
    const auto found = layers_found(g.modules[i], table);
    if (!found) return refused(g.where, related_key(m), found.error().text);
    layers pruned;
    for (const size_t l : *found) {
      const auto is_this = [&](const pruned_module& x) {
        return x.part == m.part && x.group == m.group && is_of(x, table.layers[l]);
      };
      if (std::ranges::any_of(chosen, is_this)) pruned.push_back(&table.layers[l]);
    }
    if (std::ranges::none_of(pruned, [&](const layer_info* l) { return is_of(m, *l); })) continue;
    for (const std::string& pattern : g.related[i]) {
      const auto others = layers_found(pattern, table);
      if (!others) return refused(g.where, related_key(m), others.error().text);
      layers all;
      for (const size_t l : *others)
        if (const auto& r = table.layers[l]; r.weight || r.kind == core::layer_kind::norm) all.push_back(&r);
      auto own = of_module(m, in_unit(pruned, m.unit), in_unit(all, m.unit));
      if (own && own->empty() && reach == pairing_reach::model) own = of_module(m, pruned, all);
      if (!own)
        return refused(g.where, related_key(m),
                       "wanted a pattern that finds as many modules as are pruned, got " + std::to_string(all.size()) +
                           " by '" + pattern + "' beside " + std::to_string(pruned.size()) + ", among them " +
                           m.module);
      if (own->empty())
        return refused(g.where, related_key(m),
                       "wanted a pattern that finds a module beside " + m.module + ", got none by '" + pattern + "'");
      out.insert(out.end(), own->begin(), own->end());
    }
  }
  return out;
}

}  // namespace troupe::job
