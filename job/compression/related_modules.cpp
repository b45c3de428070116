#include "job/compression/related_modules.hpp"

#include <fmt/format.h>

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

/// Returns the modules out of `found`, the matches of one pattern, that are related to the pruned module `m`, without
/// `m` itself. `pruned` are all pruned modules; if there are as many matches as pruned modules, they are paired in
/// order. nullopt: the assignment is ambiguous.
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

module_pairs::module_pairs(std::span<const pruned_module> chosen, const core::model_table& table) : table_(table) {
  for (const auto& m : chosen) chosen_.insert({m.part, m.group, m.unit, m.module});
}

const core::result<std::vector<const layer_info*>>& module_pairs::found(const std::string& pattern) {
  const auto at = found_.find(pattern);
  if (at != found_.end()) return at->second;
  core::result<layers> out;
  if (const auto all = layers_found(pattern, table_); !all)
    out = core::fail(all.error());
  else
    for (const size_t l : *all) out->push_back(&table_.layers[l]);
  return found_.emplace(pattern, std::move(out)).first->second;
}

core::result<std::vector<const layer_info*>> module_pairs::related(const pruned_module& m,
                                                                   const config::pruned_group& g, pairing_reach reach) {
  layers out;
  for (size_t i = 0; i < g.related.size(); ++i) {
    const auto& of_group = found(g.modules[i]);
    if (!of_group) return refused(g.where, related_key(m), of_group.error().text);
    if (std::ranges::none_of(*of_group, [&](const layer_info* l) { return is_of(m, *l); })) continue;
    layers pruned;
    std::ranges::copy_if(*of_group, std::back_inserter(pruned), [&](const layer_info* l) {
      return chosen_.contains({m.part, m.group, l->unit, l->name});
    });
    if (std::ranges::none_of(pruned, [&](const layer_info* l) { return is_of(m, *l); })) continue;
    for (const std::string& pattern : g.related[i]) {
      const auto& others = found(pattern);
      if (!others) return refused(g.where, related_key(m), others.error().text);
      layers all;
      std::ranges::copy_if(*others, std::back_inserter(all),
                           [](const layer_info* l) { return l->weight || l->kind == core::layer_kind::norm; });
      auto own = of_module(m, in_unit(pruned, m.unit), in_unit(all, m.unit));
      if (own && own->empty() && reach == pairing_reach::model) own = of_module(m, pruned, all);
      if (!own)
        return refused(g.where, related_key(m),
                       fmt::format("wanted a pattern that matches as many modules as are pruned, got {} for '{}' and "
                                   "{} pruned modules, including {}",
                                   all.size(), pattern, pruned.size(), m.module));
      if (own->empty())
        return refused(
            g.where, related_key(m),
            "wanted a pattern that matches a module related to " + m.module + ", got none for '" + pattern + "'");
      out.insert(out.end(), own->begin(), own->end());
    }
  }
  return out;
}

}  // namespace troupe::job
