#include "formats/megatron/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

namespace troupe::formats {
namespace {

bool has(std::string_view name, std::string_view fragment) { return name.find(fragment) != std::string_view::npos; }

cut_rule along(size_t dimension) { return {.kind = cut_kind::along, .dimension = dimension}; }

constexpr std::array dimension_1{"attention.dense.weight", "mlp.dense_4h_to_h.weight"};
constexpr std::string_view query_key_value = "attention.query_key_value";
constexpr std::array dimension_0{"mlp.dense_h_to_4h.weight", "mlp.dense_h_to_4h.bias", "word_embeddings.weight",
                                 "final_linear.weight"};

constexpr std::array first_rank_only{"input_layernorm.weight",        "input_layernorm.bias",
                                     "self_attention.dense.bias",     "post_attention_layernorm.weight",
                                     "post_attention_layernorm.bias", "mlp.dense_4h_to_h.bias",
                                     "position_embeddings.weight"};

}  // namespace

core::result<qkv_version> qkv_version_from(double checkpoint_version) {
  if (checkpoint_version == 0) return qkv_version::v0;
  if (checkpoint_version == 1) return qkv_version::v1;
  if (checkpoint_version == 2) return qkv_version::v2;
  return core::fail(
      core::error_kind::bad_input,
      fmt::format("wanted checkpoint version 0, 1.0 or 2.0 of query_key_value, got {}", checkpoint_version));
}

cut_rule megatron_rule(std::string_view name, qkv_version version) {
  for (const auto* f : dimension_1)
    if (has(name, f)) return along(1);
  if (has(name, query_key_value)) {
    auto out = along(0);
    if (version == qkv_version::v0) out.sub_parameters = 3;
    return out;
  }
  for (const auto* f : dimension_0)
    if (has(name, f)) return along(0);
  return {};
}

bool is_megatron_name(std::string_view name) { return megatron_rule(name, qkv_version::v2).kind == cut_kind::along; }

cut_rule rule_of(const core::parameter_cut& cut) {
  if (!cut.cuts()) return {};
  auto out = along(cut.dimension);
  if (cut.style == core::tp_style::vocabulary) {
    for (const auto& part : cut.parts) out.original_rows += static_cast<int64_t>(core::sum_of(part));
    return out;
  }
  bool even = true;
  for (const auto& part : cut.parts) {
    out.widths.emplace_back(part.begin(), part.end());
    out.part_sizes.push_back(static_cast<int64_t>(core::sum_of(part)));
    even = even && std::ranges::adjacent_find(part, std::not_equal_to()) == part.end();
  }
  if (!even) {
    out.part_sizes.clear();
    return out;
  }
  out.widths.clear();
  if (std::ranges::adjacent_find(out.part_sizes, std::not_equal_to()) == out.part_sizes.end()) {
    out.sub_parameters = static_cast<uint32_t>(out.part_sizes.size());
    out.part_sizes.clear();
  }
  return out;
}

cut_rule layer_rule(std::string_view key) {
  if (std::find(first_rank_only.begin(), first_rank_only.end(), key) != first_rank_only.end()) return {};
  if (key == "self_attention.dense.weight" || key == "mlp.dense_4h_to_h.weight") return along(1);
  return along(0);
}

}  // namespace troupe::formats
