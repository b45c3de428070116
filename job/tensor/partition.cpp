#include "job/tensor/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "config/sections/name_pattern.hpp"
#include "core/text.hpp"
#include "job/tensor/tp_presets.hpp"

namespace troupe::job {
namespace {

using config::layer_spec;
using config::partition_type;
using core::layer_info;
using core::layer_kind;
using core::tp_style;

const std::string section_key = "tensor_parallel.partition_config", preset_key = "tensor_parallel.preset_model";

core::error refused(const std::string& where, const std::string& what) {
  return {core::error_kind::bad_input, where + ": " + what};
}

bool is_for(const layer_spec& spec, std::string_view model_type) {
  return spec.model_types.empty() || std::ranges::any_of(spec.model_types, [&](const std::string& one) {
           return core::lowered(one) == model_type;
         });
}

/// Lists the layer specs (items of tensor_parallel.partition_config or of a preset) in order of precedence, and finds
/// for each parameter the first spec whose pattern matches its name.
class spec_list {
 public:
  spec_list(const config::tensor_parallel_section& section, std::string_view model_type) : model_type_(model_type) {
    specs_ = section.partition.specs;
    own_ = specs_.size();
    key_ = section.partition.given ? section_key : preset_key;
    if (!section.partition.given || section.partition.use_default_specs)
      for (auto& spec : preset_specs(section.preset_model)) specs_.push_back(std::move(spec));
  }

  core::result<void> match(const core::model_table& whole) {
    std::vector<std::string> names;
    for (const auto& p : whole.parameters) names.push_back(p.name);
    names.emplace_back("lm_head.weight");  // a tied head has no parameter of its own, but specs may name it
    first_.assign(names.size(), none);
    for (size_t s = 0; s < specs_.size(); ++s)
      for (const std::string& pattern : is_for(specs_[s], model_type_) ? specs_[s].patterns : no_patterns) {
        const auto found = config::matched_at_start(pattern, names);
        if (!found) return core::fail(found.error().in(where(s)));
        for (size_t q = 0; q < names.size(); ++q)
          if ((*found)[q] && first_[q] == none) first_[q] = s;
      }
    return {};
  }

  [[nodiscard]] const layer_spec* of(size_t parameter) const {
    return first_[parameter] == none ? nullptr : &specs_[first_[parameter]];
  }
  [[nodiscard]] const layer_spec* of_head() const { return first_.back() == none ? nullptr : &specs_[first_.back()]; }
  /// Returns the position of a spec as text: "job.yaml:3: tensor_parallel.partition_config"; for null only the key.
  [[nodiscard]] std::string where(const layer_spec* spec) const {
    return spec == nullptr ? key_ : where(static_cast<size_t>(spec - specs_.data()));
  }
  [[nodiscard]] cut_origin origin(size_t parameter) const {
    const bool by_preset = first_[parameter] != none && first_[parameter] >= own_;
    return by_preset || key_ == preset_key ? cut_origin::preset : cut_origin::config;
  }
  [[nodiscard]] const std::string& key() const { return key_; }

 private:
  static constexpr size_t none = SIZE_MAX;
  [[nodiscard]] std::string where(size_t s) const {
    return s < own_ ? specs_[s].where + ": " + section_key : preset_key;
  }

  std::string_view model_type_;
  std::vector<layer_spec> specs_;
  std::vector<std::string> no_patterns;
  /// [parameter; the last entry stands for a tied head]: index of the first spec whose pattern matches its name.
  std::vector<size_t> first_;
  size_t own_ = 0;
  std::string key_;
};

tp_style style_of(const layer_spec* spec) {
  if (spec == nullptr || spec->type == partition_type::skip) return tp_style::replicated;
  return spec->type == partition_type::row ? tp_style::row : tp_style::column;
}

/// Returns the sizes of the blocks that a spec's shape describes; empty if they do not sum to `outputs`.
std::vector<uint64_t> blocks_of(const layer_spec& spec, uint64_t outputs) {
  const config::shape_part& packed = spec.shape[0];
  std::vector<uint64_t> out;
  if (packed.nested) {
    out.assign(packed.sizes.begin(), packed.sizes.end());
  } else if (packed.sizes[0] == -1) {
    out = {outputs};
  } else if (const auto count = static_cast<uint64_t>(packed.sizes[0]); outputs % count == 0) {
    out.assign(count, outputs / count);
  }
  if (std::accumulate(out.begin(), out.end(), uint64_t{0}) != outputs) out.clear();
  return out;
}

std::string text_of(const std::vector<uint64_t>& sizes) {
  std::string out;
  for (const uint64_t n : sizes) out += fmt::format("{}{}", out.empty() ? "" : ", ", n);
  return out;
}

/// Checks that a spec which splits a layer of a transformer block fits the way in which the model family computes the
/// layer.
core::result<void> check_layer(const spec_list& specs, const layer_info& l, const std::string& name, tp_style wanted,
                               const layer_spec& spec) {
  const std::string where = specs.where(&spec);
  if (style_of(&spec) != wanted)
    return core::fail(refused(where, "wanted " + std::string(name_of(wanted)) + " for " + name +
                                         ", as its family computes it, or skip, got " +
                                         std::string(name_of(spec.type))));
  if (spec.gather_output)
    return core::fail(refused(where, "gather_output: wanted false for " + name +
                                         ", because its sharded outputs go to a row layer, got true"));
  const uint32_t dimension = wanted == tp_style::column ? 0 : 1;
  if (spec.dimension.value_or(dimension) != dimension)
    return core::fail(refused(where, fmt::format("partition_dim: wanted {} for {}, a {} layer, got {}", dimension, name,
                                                 name_of(wanted), *spec.dimension)));
  if (spec.shape.empty()) return {};
  std::vector<uint64_t> own;
  for (const auto& part : l.parts) own.push_back(part.width);
  if (own.empty()) own = {l.out};
  const auto blocks = wanted == tp_style::row ? own : blocks_of(spec, l.out);
  const int64_t inputs = spec.shape.size() == 2 && !spec.shape[1].nested ? spec.shape[1].sizes[0] : 0;
  if (blocks == own && (inputs == -1 || std::cmp_equal(inputs, l.in))) return {};
  return core::fail(
      refused(where, fmt::format("shape: wanted [[{}], {}] for {}, its outputs side by side and its inputs, got {}",
                                 text_of(own), l.in, name,
                                 blocks.empty() ? fmt::format("blocks that do not sum to its {} outputs", l.out)
                                                : fmt::format("[[{}], {}]", text_of(blocks), inputs))));
}

class splitter {
 public:
  splitter(const spec_list& specs, const core::model_table& whole, const config::partition_section& section,
           uint32_t degree)
      : specs_(specs), whole_(whole), section_(section) {
    out_.split.degree = degree;
    family_ = models::tp_plan_of(whole, out_.split);
    out_.split.blocks.assign(whole.units.size() - 2, {false, false});
    for (size_t q = 0; q < whole.parameters.size(); ++q) out_.origins.push_back(specs.origin(q));
  }

  core::result<named_split> run() {
    for (uint32_t u = 1; u + 1 < whole_.units.size(); ++u)
      for (uint32_t s = 0; s < whole_.units[u].segments.size(); ++s) TROUPE_TRY(half(u, s));
    TROUPE_TRY(vocabulary());
    const bool cuts = out_.split.vocabulary ||
                      std::ranges::any_of(out_.split.blocks, [](const auto& b) { return b.attention || b.mlp; });
    if (cuts) return std::move(out_);
    return core::fail(
        refused(specs_.key(), "wanted a spec that cuts a layer of the model, such as " + example() + ", found none"));
  }

 private:
  [[nodiscard]] const std::string& name(const layer_info& l) const { return whole_.parameters[*l.weight].name; }
  [[nodiscard]] std::string example() const {
    for (const layer_info& l : whole_.layers_of(1, 0))
      if (l.kind == layer_kind::linear) return name(l);
    return "a linear layer's weight";
  }
  [[nodiscard]] std::string said(const layer_info& l) const {
    const layer_spec* spec = specs_.of(*l.weight);
    return name(l) + (spec == nullptr ? ", which has no spec" : " by " + specs_.where(spec));
  }

  core::result<void> half(uint32_t u, uint32_t s) {
    const layer_info *cut = nullptr, *left = nullptr;
    bool attends = false, acts = false;
    for (const layer_info& l : whole_.layers_of(u, s)) {
      attends = attends || l.kind == layer_kind::attention;
      acts = acts || l.kind == layer_kind::activation;
      if (l.kind != layer_kind::linear) continue;
      const layer_spec* spec = specs_.of(*l.weight);
      if (spec == nullptr && section_.given && section_.strict_mode)
        return core::fail(
            refused(section_.where + ": " + section_key, "strict_mode: wanted a spec for " + name(l) + ", found none"));
      if (l.bias) out_.origins[*l.bias] = specs_.origin(*l.weight);
      const bool cuts = style_of(spec) != tp_style::replicated;
      (cuts ? cut : left) = &l;
      if (!cuts) continue;
      TROUPE_TRY(check_layer(specs_, l, name(l), family_.parameters[*l.weight].style, *spec));
    }
    if (cut != nullptr && left != nullptr)
      return core::fail(
          refused(specs_.where(specs_.of(*cut->weight)), "wanted all layers of '" + whole_.units[u].segments[s].name +
                                                             "' of " + whole_.units[u].name + " cut, or none, got " +
                                                             name(*cut) + " cut and whole " + said(*left)));
    // A norm over all heads is divided with the layers whose outputs it reads.
    for (const layer_info& l : whole_.layers_of(u, s))
      if (cut != nullptr && l.kind == layer_kind::norm && l.heads + l.kv_heads > 0)
        out_.origins[*l.weight] = specs_.origin(*cut->weight);
    models::block_split& of_block = out_.split.blocks[u - 1];
    if (cut != nullptr && attends) of_block.attention = true;
    if (cut != nullptr && (acts || !attends)) of_block.mlp = true;
    return {};
  }

  /// Decides whether the vocabulary is split: the rows of the embedding and of the head are split together or not at
  /// all.
  core::result<void> vocabulary() {
    const layer_spec *cut = nullptr, *left = nullptr;
    const auto see = [&](const layer_spec* spec, const std::string& name) -> core::result<void> {
      if (spec == nullptr) return {};
      if (spec->type == partition_type::row || spec->dimension.value_or(0) != 0 || !spec->shape.empty())
        return core::fail(
            refused(specs_.where(spec), "wanted column, along dimension 0 and without shape, or skip for " + name +
                                            ", because its rows are the vocabulary"));
      (spec->type == partition_type::skip ? left : cut) = spec;
      return {};
    };
    for (const uint32_t u : {uint32_t{0}, static_cast<uint32_t>(whole_.units.size()) - 1}) {
      const auto layers = whole_.layers_of(u, 0);
      for (const layer_info& l : layers) {
        if (!models::has_vocabulary(layers, l)) continue;
        TROUPE_TRY(see(specs_.of(*l.weight), name(l)));
      }
    }
    TROUPE_TRY(see(specs_.of_head(), "lm_head.weight"));
    if (cut != nullptr && left != nullptr)
      return core::fail(
          refused(specs_.where(cut),
                  "wanted embedding and head both cut, or both whole, got one whole by " + specs_.where(left)));
    out_.split.vocabulary = cut != nullptr;
    return {};
  }

  const spec_list& specs_;
  const core::model_table& whole_;
  const config::partition_section& section_;
  core::tp_plan family_;
  named_split out_;
};

}  // namespace

std::string_view name_of(cut_origin origin) {
  constexpr std::string_view names[] = {"family", "config", "preset", "host"};
  return names[static_cast<size_t>(origin)];
}

core::result<named_split> split_of(const config::tensor_parallel_section& section, const core::model_table& whole,
                                   std::string_view model_type, uint32_t degree) {
  spec_list specs(section, model_type);
  TROUPE_TRY(specs.match(whole));
  return splitter(specs, whole, section.partition, degree).run();
}

}  // namespace troupe::job
