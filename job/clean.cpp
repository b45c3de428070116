#include "job/clean.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "job/module_choice.hpp"
#include "kernels/compress/pruning.hpp"

namespace troupe::job {
namespace {

using core::error_kind;
using core::layer_info;

const config::pruning_section& section_of(const config::job_config& c, pruned_part part) {
  switch (part) {
    case pruned_part::rows:
      return c.compression.rows;
    case pruned_part::heads:
      return c.compression.heads;
    case pruned_part::channels:
      return c.compression.channels;
    case pruned_part::elements:
      break;
  }
  return c.compression.sparse;
}

/// What stays of `count`, ascending.
std::vector<uint64_t> places_in(const kernels::mask_bits& bits, uint64_t count) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < count; ++i)
    if (kernels::is_kept(bits, i)) out.push_back(i);
  return out;
}

class cleaner {
 public:
  /// `changes`: weights are, so that it matters who reads them.
  cleaner(const config::job_config& c, const core::model_table& table, uint64_t updates, const mask_lookup& mask,
          bool changes = true)
      : config_(c), table_(table), updates_(updates), mask_(mask), changes_(changes) {}

  core::result<std::shared_ptr<const cleaning>> all() {
    chosen_tensor uncut;
    uncut.whole = std::shared_ptr<const core::model_table>(std::shared_ptr<const void>(), &table_);
    auto chosen = choose_compression(config_, table_, uncut, 1);
    if (!chosen) return core::fail(chosen.error());
    out_->chosen = std::move(*chosen);
    out_->used = config_.parameter_dtype();
    for (auto& m : out_->chosen.modules)
      if (m.from_update <= updates_)
        if (auto ok = quantise(m); !ok) return core::fail(ok.error());
    for (const auto& m : out_->chosen.pruned) {
      if (m.score_parameter) of(*m.score_parameter).drops = true;
      if (m.from_update > updates_) continue;
      if (auto ok = prune(m); !ok) return core::fail(ok.error());
    }
    if (auto ok = same_in_all_blocks(); !ok) return core::fail(ok.error());
    for (auto& [q, p] : parameters_) out_->parameters.push_back(std::move(p));
    return out_;
  }

 private:
  cleaned_parameter& of(uint32_t q) {
    const auto [at, is_new] = parameters_.try_emplace(q);
    if (is_new) {
      const auto& p = table_.parameters[q];
      at->second.name = p.name;
      at->second.rows = static_cast<uint64_t>(p.shape[0]);
      at->second.columns = p.numel() / at->second.rows;
    }
    return at->second;
  }
  [[nodiscard]] const layer_info& layer_named(const std::string& module) const {
    return *std::ranges::find(table_.layers, module, &layer_info::name);
  }

  /// A weight that another module reads, too, would change there as well.
  core::result<void> not_shared(const std::string& module, uint32_t weight, const std::string& where,
                                const std::string& key) const {
    for (const auto& l : table_.layers)
      if (changes_ && l.weight == weight && l.name != module)
        return refused(where, key,
                       "wanted weights that no other module reads, as they are changed for good, got that of " +
                           module + ", which " + l.name + " reads as well");
    return {};
  }

  core::result<void> quantise(compressed_module& m) {
    const auto& w = config_.compression.weights;
    const auto now = m.after(updates_, config_.seed, m.use.parameter);
    if (now.kept > 0)
      return refused(w.where, "compression_training.weight_quantization",
                     "wanted weights on their grid, got those of " + m.module + ", of which a share of " +
                         std::to_string(now.kept) + " is still as the optimizer has it (fp16_mixed_quantize)");
    if (now.grid) m.recipe.grid = *now.grid;
    m.recipe.stochastic = false;  // rounded once more, to nearest
    if (auto ok = not_shared(m.module, m.use.parameter, w.where, "compression_training.weight_quantization"); !ok)
      return ok;
    of(m.use.parameter).recipe = &m.recipe;
    out_->modules.push_back({m.module, "weight_quantization, " + std::to_string(m.recipe.grid.bits) + " bits"});
    return {};
  }

  core::result<void> prune(const pruned_module& m) {
    const auto& section = section_of(config_, m.part);
    const std::string key = "compression_training." + std::string(name_of(m.part));
    if (auto ok = not_shared(m.module, m.weight, section.where, key); !ok) return ok;
    const auto bits = mask_(m);
    if (!bits) return refused(section.where, key, "wanted the mask of " + m.module + ", the checkpoint has none");
    auto& weight = of(m.weight);
    if (weight.mask.empty()) weight.mask = kernels::whole_mask(m.matrix.elements());
    switch (m.part) {
      case pruned_part::elements:
        kernels::and_elements(m.matrix, *bits, weight.mask);
        break;
      case pruned_part::heads:
        kernels::and_heads(m.matrix, *bits, m.heads, weight.mask);
        break;
      case pruned_part::rows:
      case pruned_part::channels:
        kernels::and_rows(m.matrix, *bits, weight.mask);
        break;
    }
    if (m.bias) of(*m.bias).mask = *bits;
    const uint64_t kept = kernels::kept_in(*bits, m.scores());
    out_->modules.push_back({m.module, std::string(name_of(m.part)) + ", " + std::to_string(kept) + " of " +
                                           std::to_string(m.scores()) + " kept"});
    return cut_related(m, *bits, section, key);
  }

  /// The layers that go with `m`, in its unit.
  core::result<std::vector<const layer_info*>> related_of(const pruned_module& m, const config::pruned_group& g,
                                                          const std::string& key) const {
    std::vector<const layer_info*> out;
    for (size_t i = 0; i < g.related.size(); ++i) {
      const auto found = layers_found(g.modules[i], table_);
      if (!found) return refused(g.where, key, found.error().text);
      if (std::ranges::none_of(*found, [&](size_t l) { return table_.layers[l].name == m.module; })) continue;
      for (const std::string& pattern : g.related[i]) {
        const auto others = layers_found(pattern, table_);
        if (!others) return refused(g.where, key, others.error().text);
        const size_t before = out.size();
        for (const size_t l : *others)
          if (const auto& r = table_.layers[l]; r.unit == m.unit && r.name != m.module && r.weight) out.push_back(&r);
        if (out.size() == before)
          return refused(g.where, key,
                         "wanted a pattern that finds a module beside " + m.module + ", got none by '" + pattern + "'");
      }
    }
    return out;
  }

  core::result<void> cut_related(const pruned_module& m, const kernels::mask_bits& bits,
                                 const config::pruning_section& section, const std::string& technique_key) {
    const auto g = std::ranges::find(section.groups, m.group, &config::pruned_group::name);
    const std::string key = technique_key + ".different_groups." + m.group + ".related_modules";
    const auto related = related_of(m, *g, key);
    if (!related) return core::fail(related.error());
    if (related->empty()) return {};
    if (m.part == pruned_part::heads) return cut_heads(m, bits, *related, g->where, key);
    if (m.part == pruned_part::elements)
      return refused(g->where, key, "wanted none, as elements are cut out of nothing, got some of " + m.module);
    const auto kept = places_in(bits, m.matrix.rows);
    if (auto ok = cut_outputs(layer_named(m.module), kept, g->where, key); !ok) return ok;
    for (const layer_info* r : *related) {
      const auto [outputs, inputs] = widths_of(*r);
      auto ok = inputs == m.matrix.rows    ? cut_inputs(*r, kept, g->where, key)
                : outputs == m.matrix.rows ? cut_outputs(*r, kept, g->where, key)
                                           : refused_width(m, *r, inputs, g->where, key);
      if (!ok) return ok;
    }
    widths_[m.unit].insert(kept.size());
    return {};
  }
  static core::result<void> refused_width(const pruned_module& m, const layer_info& r, uint64_t inputs,
                                          const std::string& where, const std::string& key) {
    return refused(where, key,
                   "wanted a module that takes the " + std::to_string(m.matrix.rows) + " rows of " + m.module +
                       ", got " + r.name + ", which takes " + std::to_string(inputs));
  }

  /// Queries, keys and values lose the rows of heads that go, the output projection its columns.
  core::result<void> cut_heads(const pruned_module& m, const kernels::mask_bits& bits,
                               const std::vector<const layer_info*>& related, const std::string& where,
                               const std::string& key) {
    const layer_info& out = layer_named(m.module);
    const uint64_t width = m.matrix.columns / m.heads;
    std::vector<uint64_t> kept;
    for (const uint64_t h : places_in(bits, m.heads))
      for (uint64_t i = 0; i < width; ++i) kept.push_back(h * width + i);
    if (auto ok = cut_inputs(out, kept, where, key); !ok) return ok;
    for (const layer_info* r : related) {
      const auto rows = rows_of_heads(*r, bits, m.heads);
      if (rows.empty())
        return refused(where, key,
                       "wanted queries, keys and values of the " + std::to_string(m.heads) + " heads of " + m.module +
                           ", got " + r->name + " with " + std::to_string(r->kv_heads) +
                           " heads of keys and values, whose groups would differ in size");
      if (auto ok = cut_outputs(*r, rows, where, key); !ok) return ok;
    }
    heads_[m.unit].insert(kept.size() / width);
    out_->head_width = width;
    return {};
  }

  [[nodiscard]] std::pair<uint64_t, uint64_t> widths_of(const layer_info& l) const {
    const auto& shape = table_.parameters[*l.weight].shape;
    const auto first = static_cast<uint64_t>(shape[0]), others = table_.parameters[*l.weight].numel() / first;
    return l.layout == core::weight_layout::in_out ? std::pair(others, first) : std::pair(first, others);
  }
  static core::result<void> keep(std::vector<uint64_t>& into, const std::vector<uint64_t>& kept, const layer_info& l,
                                 const std::string& where, const std::string& key) {
    if (!into.empty() && into != kept)
      return refused(where, key, "wanted " + l.name + " cut by one mask, got two that keep other parts of it");
    into = kept;
    return {};
  }
  core::result<void> cut_outputs(const layer_info& l, const std::vector<uint64_t>& kept, const std::string& where,
                                 const std::string& key) {
    auto& p = of(*l.weight);
    const bool lies_transposed = l.layout == core::weight_layout::in_out;
    if (auto ok = keep(lies_transposed ? p.kept_columns : p.kept_rows, kept, l, where, key); !ok) return ok;
    return l.bias ? keep(of(*l.bias).kept_rows, kept, l, where, key) : core::result<void>();
  }
  core::result<void> cut_inputs(const layer_info& l, const std::vector<uint64_t>& kept, const std::string& where,
                                const std::string& key) {
    auto& p = of(*l.weight);
    const bool lies_transposed = l.layout == core::weight_layout::in_out;
    return keep(lies_transposed ? p.kept_rows : p.kept_columns, kept, l, where, key);
  }

  /// config.json has one width and one number of heads for all blocks.
  core::result<void> same_in_all_blocks() {
    const size_t blocks = table_.units.size() - 2;  // without embedding and head
    const auto same = [&](const std::map<uint32_t, std::set<uint64_t>>& by_unit,
                          const char* what) -> core::result<std::optional<uint64_t>> {
      std::set<uint64_t> all;
      for (const auto& [unit, sizes] : by_unit) all.insert(sizes.begin(), sizes.end());
      if (all.empty()) return std::nullopt;
      if (all.size() == 1 && by_unit.size() == blocks) return *all.begin();
      return core::fail(error_kind::bad_input,
                        std::string("compression_training: wanted the same number of ") + what + " in all " +
                            std::to_string(blocks) + " blocks, as config.json has one for all, got " +
                            (all.size() > 1 ? "different ones" : "some in " + std::to_string(by_unit.size())));
    };
    const auto inner = same(widths_, "rows");
    if (!inner) return core::fail(inner.error());
    const auto heads = same(heads_, "heads");
    if (!heads) return core::fail(heads.error());
    out_->inner = *inner;
    out_->heads = out_->kv_heads = *heads;
    return {};
  }

  const config::job_config& config_;
  const core::model_table& table_;
  uint64_t updates_;
  const mask_lookup& mask_;
  bool changes_;
  std::shared_ptr<cleaning> out_ = std::make_shared<cleaning>();
  std::map<uint32_t, cleaned_parameter> parameters_;
  std::map<uint32_t, std::set<uint64_t>> widths_, heads_;  // [unit]: that stay
};

}  // namespace

std::vector<uint64_t> rows_of_heads(const layer_info& l, const kernels::mask_bits& bits, uint64_t heads) {
  if (l.kv_heads != 0 && l.kv_heads != heads) return {};  // queries in groups
  std::vector<uint64_t> widths;
  for (const auto& part : l.parts) widths.push_back(part.width);
  if (widths.empty()) widths.push_back(l.out);
  std::vector<uint64_t> out;
  uint64_t begin = 0;
  for (const uint64_t part : widths) {
    if (part % heads != 0) return {};
    const uint64_t width = part / heads;
    for (const uint64_t h : places_in(bits, heads))
      for (uint64_t i = 0; i < width; ++i) out.push_back(begin + h * width + i);
    begin += part;
  }
  return out;
}

core::result<std::shared_ptr<const cleaning>> plan_cleaning(const config::job_config& config,
                                                            const core::model_table& table, uint64_t updates,
                                                            const mask_lookup& mask) {
  return cleaner(config, table, updates, mask).all();
}

core::result<void> check_related(const config::job_config& config, const core::model_table& table) {
  const auto& c = config.compression;
  const auto relates = [](const config::pruning_section* s) {
    return s->enabled && std::ranges::any_of(s->groups, [](const auto& g) { return !g.related.empty(); });
  };
  if (std::ranges::none_of(std::array{&c.sparse, &c.rows, &c.heads, &c.channels}, relates)) return {};
  const mask_lookup first_kept = [](const pruned_module& m) -> std::optional<kernels::mask_bits> {
    std::vector<uint8_t> keep(m.scores());
    std::ranges::fill_n(keep.begin(), static_cast<ptrdiff_t>(m.kept), uint8_t{1});
    return kernels::packed_mask(keep);
  };
  const auto done = cleaner(config, table, UINT64_MAX, first_kept, false).all();
  if (!done) return core::fail(done.error());
  return {};
}

}  // namespace troupe::job
