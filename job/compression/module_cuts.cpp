#include "job/compression/module_cuts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "job/compression/module_choice.hpp"

namespace troupe::job {
namespace {

using core::layer_info;

/// Returns the indices below `count` of the bits that are set, ascending.
std::vector<uint64_t> places_in(const kernels::mask_bits& bits, uint64_t count) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < count; ++i)
    if (kernels::is_kept(bits, i)) out.push_back(i);
  return out;
}

/// Returns the numbers of outputs and of inputs of a layer: for a convolution the numbers of channels, for a layer with
/// a vector as weight no inputs.
std::pair<uint64_t, uint64_t> widths_of(const layer_info& l, const core::model_table& table) {
  if (!l.weight) return {l.out, 0};
  const auto& shape = table.parameters[*l.weight].shape;
  const auto first = static_cast<uint64_t>(shape[0]), second = shape.size() > 1 ? static_cast<uint64_t>(shape[1]) : 0;
  return l.layout == core::weight_layout::in_out ? std::pair(second, first) : std::pair(first, second);
}

/// True if each filter of the convolution reads only a part of the channels.
bool is_grouped(const layer_info& l, const core::model_table& table) {
  return l.kind == core::layer_kind::convolution && widths_of(l, table) != std::pair(l.out, l.in);
}

}  // namespace

core::result<void> check_not_shared(const core::model_table& table, const std::string& module, uint32_t weight,
                                    const std::function<bool(const layer_info&)>& is_alike, const std::string& where,
                                    const std::string& key) {
  for (const auto& l : table.layers)
    if (l.weight == weight && l.name != module && !is_alike(l))
      return refused(where, key,
                     "wanted weights of a single module, because they are changed permanently, got that of " + module +
                         ", which " + l.name + " also reads");
  return {};
}

std::vector<uint64_t> rows_of_heads(const layer_info& l, const kernels::mask_bits& bits, uint64_t heads) {
  if (l.kv_heads != 0 && l.kv_heads != heads) return {};  // grouped-query attention has fewer heads of keys and values
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

const layer_info& module_cuts::layer_of(const pruned_module& m) const {
  return *std::ranges::find(table_.layers, m.module, &layer_info::name);
}

core::result<uint64_t> module_cuts::cut(const pruned_module& m, const kernels::mask_bits& bits, const layers& related,
                                        const std::string& where, const std::string& key) {
  const place at{where, key};
  if (m.part == pruned_part::elements)
    return refused(where, key,
                   "wanted none, because single elements are pruned and not rows or heads, got some of " + m.module);
  const bool by_head = m.part == pruned_part::heads;
  TROUPE_TRY(by_head ? cut_heads(m, bits, related, at) : cut_rows(m, places_in(bits, m.matrix.rows), related, at));
  return kernels::kept_in(bits, m.scores());
}

core::result<void> module_cuts::cut_rows(const pruned_module& m, const std::vector<uint64_t>& kept,
                                         const layers& related, const place& at) {
  layers all{&layer_of(m)};
  all.insert(all.end(), related.begin(), related.end());
  for (const layer_info* l : all)
    if (is_grouped(*l, table_))
      return refused(at.where, at.key, "wanted a convolution with a single group, got " + l->name + " with several");
  TROUPE_TRY(keep(layer_of(m), &cut_module::outputs, kept, at));
  for (const layer_info* r : related) {
    const auto [outputs, inputs] = widths_of(*r, table_);
    if (inputs != m.matrix.rows && outputs != m.matrix.rows)
      return refused(at.where, at.key,
                     fmt::format("wanted a module that takes the {} rows of {}, got {}, which takes {}", m.matrix.rows,
                                 m.module, r->name, inputs));
    const auto side = inputs == m.matrix.rows ? &cut_module::inputs : &cut_module::outputs;
    TROUPE_TRY(keep(*r, side, kept, at));
  }
  return {};
}

// Removes the rows of dropped heads from queries, keys and values, and their columns from the output projection.
core::result<void> module_cuts::cut_heads(const pruned_module& m, const kernels::mask_bits& bits, const layers& related,
                                          const place& at) {
  const uint64_t width = m.matrix.columns / m.heads;
  std::vector<uint64_t> kept;
  for (const uint64_t h : places_in(bits, m.heads))
    for (uint64_t i = 0; i < width; ++i) kept.push_back(h * width + i);
  TROUPE_TRY(keep(layer_of(m), &cut_module::inputs, kept, at));
  for (const layer_info* r : related) {
    if (r->parts.empty() && r->kv_heads == 0 && r->out != m.matrix.columns)
      return refused(at.where, at.key,
                     fmt::format("wanted queries, keys or values with the {} outputs that {} takes, got {} with {} "
                                 "outputs, which cannot be assigned to heads",
                                 m.matrix.columns, m.module, r->name, r->out));
    const auto rows = rows_of_heads(*r, bits, m.heads);
    if (rows.empty())
      return refused(at.where, at.key,
                     fmt::format("wanted queries, keys and values of the {} heads of {}, got {} with {} heads of keys "
                                 "and values, which would get groups of different sizes",
                                 m.heads, m.module, r->name, r->kv_heads));
    TROUPE_TRY(keep(*r, &cut_module::outputs, rows, at));
  }
  return {};
}

core::result<void> module_cuts::keep(const layer_info& l, std::vector<uint64_t> cut_module::*side,
                                     const std::vector<uint64_t>& kept, const place& at) {
  const auto nobody = [](const layer_info&) { return false; };
  if (l.weight) TROUPE_TRY(check_not_shared(table_, l.name, *l.weight, nobody, at.where, at.key));
  auto& cut = cuts_[l.name];
  cut.module = l.name;
  auto& into = cut.*side;
  if (!into.empty() && into != kept)
    return refused(at.where, at.key,
                   "wanted " + l.name + " cut by one mask, got two masks that keep different parts of it");
  into = kept;
  return {};
}

}  // namespace troupe::job
