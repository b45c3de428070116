#include "checkpoint/convert/reshape_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "core/number.hpp"
#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::checkpoint {
namespace {

/// Parts of names that identify tensors before the first block in sources without an order of parameters.
constexpr std::array<std::string_view, 4> first_fragments{"embed", "wte", "wpe", "tokens"};

struct block_name {
  std::string stem;  ///< part of the name before the block's number, such as `h.`
  uint32_t number = 0;
  size_t key = 0;  ///< position in the tensor's name at which the text after the block's number begins
  auto operator<=>(const block_name& o) const {
    if (const auto c = stem <=> o.stem; c != 0) return c;
    return number <=> o.number;
  }
};

std::optional<block_name> block_of(std::string_view name) {
  for (size_t begin = 0; begin < name.size();) {
    const size_t dot = name.find('.', begin);
    if (dot == std::string_view::npos) return std::nullopt;
    if (const auto n = core::number_of<uint32_t>(name.substr(begin, dot - begin)))
      return block_name{std::string(name.substr(0, begin)), *n, dot + 1};
    begin = dot + 1;
  }
  return std::nullopt;
}

pipeline_map map_of_pipeline(const std::set<std::string>& names) {
  pipeline_map out;
  uint32_t lowest = UINT32_MAX;
  for (const auto& name : names)
    if (auto place = formats::layer_place_of(name)) {
      lowest = std::min(lowest, place->layer);
      out.places.emplace(name, std::move(*place));
    }
  for (const auto& name : names) {
    if (!name.starts_with(formats::tied_modules)) continue;
    const size_t key =
        name.find('.', formats::tied_modules.size()) + 1;  // without a dot it is 0: the whole name is the key
    const uint32_t layer = lowest >= 2 ? 1 : 0;
    out.places.emplace(name, formats::layer_place{layer, name.substr(key)});
    out.prefixes[layer] = name.substr(0, key);
  }
  return out;
}

/// True if the tensor comes before the first block.
bool comes_first(const std::string& name, const std::map<std::string, size_t>& order, size_t first_block) {
  if (const auto at = order.find(name); at != order.end()) return at->second < first_block;
  return std::ranges::any_of(first_fragments, [&](auto f) { return name.find(f) != std::string::npos; });
}

/// Returns the stage of each layer if a stage begins at each layer in `partition`.
core::result<std::map<uint32_t, uint32_t>> stages_that_begin_at(const std::vector<uint32_t>& partition,
                                                                std::map<uint32_t, uint32_t> layers, uint32_t stages) {
  const auto refuse = [&](const std::string& why) {
    return fail(error_kind::bad_input, fmt::format("partition: wanted the first layer of each of {} stages, ascending "
                                                   "from 0 on, got {}{}",
                                                   stages, fmt::join(partition, ","), why));
  };
  if (partition.size() != stages || partition.front() != 0 ||
      std::ranges::adjacent_find(partition, std::greater_equal()) != partition.end())
    return refuse("");
  std::vector<bool> has_layers(stages, false);
  for (auto& [layer, stage] : layers) {
    stage = static_cast<uint32_t>(std::ranges::upper_bound(partition, layer) - partition.begin()) - 1;
    has_layers[stage] = true;
  }
  const auto empty = std::ranges::find(has_layers, false);
  if (empty != has_layers.end())
    return refuse(fmt::format(", where stage {} has no layer with tensors", empty - has_layers.begin()));
  return layers;
}

}  // namespace

core::result<pipeline_map> pipeline_map_of(const formats::tensor_source& whole) {
  std::set<std::string> names;
  for (const auto& t : whole.tensors) names.insert(t.name);
  if (std::ranges::all_of(
          names, [](const auto& n) { return formats::layer_place_of(n) || n.starts_with(formats::tied_modules); }) &&
      std::ranges::any_of(names, [](const auto& n) { return formats::layer_place_of(n).has_value(); }))
    return map_of_pipeline(names);
  std::map<std::string, size_t> order;
  for (size_t i = 0; i < whole.parameter_order.size(); ++i) order.emplace(whole.parameter_order[i], i);
  std::map<block_name, size_t> blocks;  // block -> position of its first parameter in parameter_order
  for (const auto& name : names)
    if (const auto b = block_of(name)) {
      const auto at = order.find(name);
      auto& first = blocks.emplace(*b, SIZE_MAX).first->second;
      if (at != order.end()) first = std::min(first, at->second);
    }
  if (blocks.empty())
    return fail(error_kind::bad_input,
                fmt::format("'{}' has no numbered blocks that could be divided over a pipeline's stages",
                            formats::shown_place(whole)));
  std::vector<std::pair<size_t, block_name>> sorted;
  for (const auto& [block, at] : blocks) sorted.emplace_back(at, block);
  std::ranges::stable_sort(sorted, {}, &std::pair<size_t, block_name>::first);
  std::map<block_name, uint32_t> layer_of;
  for (const auto& [at, block] : sorted) layer_of.emplace(block, static_cast<uint32_t>(layer_of.size()) + 1);
  pipeline_map out;
  const auto last = static_cast<uint32_t>(layer_of.size()) + 1;
  for (const auto& name : names) {
    const auto b = block_of(name);
    const uint32_t layer = b ? layer_of.at(*b) : comes_first(name, order, sorted.front().first) ? 0 : last;
    out.places.emplace(name, formats::layer_place{layer, b ? name.substr(b->key) : name});
    out.prefixes.emplace(layer, b ? name.substr(0, b->key) : "");
  }
  return out;
}

std::string pipeline_name(const pipeline_map& map, const std::string& name) {
  const auto place = map.places.find(name);
  if (place == map.places.end() || name.starts_with(formats::tied_modules)) return name;
  return fmt::format("{}.{}", place->second.layer, place->second.key);
}

core::result<std::map<uint32_t, uint32_t>> stages_of(const pipeline_map& map, uint32_t stages,
                                                     const std::vector<uint32_t>& partition) {
  std::map<uint32_t, uint32_t> out;
  for (const auto& [name, place] : map.places) out.emplace(place.layer, 0);
  if (stages == 0 || out.size() < stages)
    return fail(error_kind::bad_input, fmt::format("{} layers cannot be divided over {} stages", out.size(), stages));
  if (!partition.empty()) return stages_that_begin_at(partition, std::move(out), stages);
  const uint64_t between = out.size() >= uint64_t{stages} + 2 ? out.size() - 2 : out.size();
  const bool has_ends = between != out.size();
  uint64_t number = 0;
  for (auto& [layer, stage] : out) {
    const uint64_t i = number++;
    if (has_ends && i == 0) continue;
    const uint64_t inner = has_ends ? std::min(i - 1, between - 1) : i, more = between % stages;
    const uint64_t each = between / stages, of_larger = more * (each + 1);
    stage = static_cast<uint32_t>(inner < of_larger ? inner / (each + 1) : more + (inner - of_larger) / each);
  }
  return out;
}

core::result<uint64_t> padding_bytes(const formats::tensor_source& whole, uint32_t tensor,
                                     const formats::rule_chooser& rules) {
  uint64_t out = 0;
  for (const auto& t : whole.tensors) {
    TROUPE_ASSIGN(const auto rule, rules(t.name));
    if (rule.kind != formats::cut_kind::along || rule.original_rows == 0) continue;
    TROUPE_ASSIGN(const auto cut, formats::cut_to_split(t.name, rule, t.shape, tensor));
    uint64_t elements = 0;
    for (const auto& s : cut.slices) elements += core::numel_of(s);
    out = std::max(out, (elements - std::min(elements, core::numel_of(t.shape))) * core::size_of(t.type));
  }
  return out;
}

core::result<reshape_plan> reshape_plan::create(const formats::tensor_source& whole,
                                                const formats::parallel_degrees& to, formats::rule_chooser rules,
                                                const std::vector<uint32_t>& partition, std::optional<uint32_t> zeros) {
  if (to.pipeline == 0 || to.tensor == 0 || to.data == 0 ||
      uint64_t{to.pipeline} * to.tensor > formats::max_tensor_ranks)
    return fail(error_kind::limit,
                fmt::format("wanted 1 to {} model-parallel ranks, got {} stages of {} tensor-parallel ranks",
                            formats::max_tensor_ranks, to.pipeline, to.tensor));
  reshape_plan out;
  out.whole_ = &whole;
  out.to_ = to;
  out.rules_ = std::move(rules);
  out.zeros_ = zeros;
  bool cuts = false;
  for (const auto& t : whole.tensors) {
    TROUPE_ASSIGN(const auto rule, out.rules_(t.name));
    const auto cut = formats::cut_to_split(t.name, rule, t.shape, to.tensor);
    if (!cut) return fail(cut.error().in(fmt::format("'{}'", formats::shown_place(whole))));
    cuts = cuts || cut->kind == formats::cut_kind::along;
    for (const auto& s : cut->slices) out.bytes_ += core::numel_of(s) * core::size_of(t.type);
  }
  if (to.tensor > 1 && !cuts)
    return fail(error_kind::bad_input,
                fmt::format("'{}': no rule cuts any of its parameters over {} tensor-parallel ranks; they have neither "
                            "Megatron's names nor published patterns",
                            formats::shown_place(whole), to.tensor));
  if (to.pipeline == 1 && (partition.empty() || partition == std::vector<uint32_t>{0})) return out;
  TROUPE_ASSIGN(auto map, pipeline_map_of(whole));
  auto stages = stages_of(map, to.pipeline, partition);
  if (!stages) return fail(stages.error().in(fmt::format("'{}'", formats::shown_place(whole))));
  out.map_ = std::move(map);
  out.stage_of_ = std::move(*stages);
  return out;
}

bool reshape_plan::is_elsewhere(const std::string& name, uint32_t stage) const {
  if (to_.pipeline == 1) return false;
  // The last stage has a copy of tied weights, usually the embedding's.
  if (name.starts_with(formats::tied_modules) && stage + 1 == to_.pipeline) return false;
  const auto at = map_.places.find(name);
  return at == map_.places.end() || stage_of_.at(at->second.layer) != stage;
}

core::result<formats::tensor_source> reshape_plan::rank(uint32_t number) const {
  const uint32_t stage = number / to_.tensor, place = number % to_.tensor;
  formats::tensor_source out;
  out.format = whole_->format;
  out.folder = whole_->folder;
  out.files = whole_->files;
  out.run = whole_->run;
  out.clamped = whole_->clamped;
  for (const auto& t : whole_->tensors) {
    if (is_elsewhere(t.name, stage)) continue;
    TROUPE_ASSIGN(const auto rule, rules_(t.name));
    const auto cut = formats::cut_to_split(t.name, rule, t.shape, to_.tensor);
    if (!cut) return fail(cut.error().in(fmt::format("'{}'", formats::shown_place(*whole_))));
    auto slice = formats::slice_entry(*cut, t, place, zeros_);
    if (!slice) return fail(slice.error().in(fmt::format("'{}'", formats::shown_place(*whole_))));
    slice->name = pipeline_name(map_, t.name);
    out.tensors.push_back(std::move(*slice));
  }
  for (const auto& t : whole_->tied)
    if (!is_elsewhere(t.of, stage)) out.tied.push_back({t.name, pipeline_name(map_, t.of)});
  for (const auto& name : whole_->parameter_order)
    if (!is_elsewhere(name, stage)) out.parameter_order.push_back(pipeline_name(map_, name));
  TROUPE_TRY(formats::complete(out));
  return out;
}

}  // namespace troupe::checkpoint
