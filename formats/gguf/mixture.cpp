#include "formats/gguf/mixture.hpp"

#include <algorithm>
#include <array>

namespace troupe::formats {
namespace {

struct mixture_row {
  std::string_view name;
  gguf_mixture mixture;
  uint32_t file_type;
};

constexpr std::array<mixture_row, 13> mixture_table{{
    {"f32", {gguf_type::f32}, 0},
    {"f16", {gguf_type::f16}, 1},
    {"bf16", {gguf_type::bf16}, 32},
    {"q8_0", {gguf_type::q8_0}, 7},
    {"q4_0", {gguf_type::q4_0}, 2},
    {"q4_1", {gguf_type::q4_1}, 3},
    {"q5_0", {gguf_type::q5_0}, 8},
    {"q5_1", {gguf_type::q5_1}, 9},
    {"q4_k", {gguf_type::q4_k}, 14},
    {"q4_k_m", {gguf_type::q4_k, true}, 15},
    {"q5_k", {gguf_type::q5_k}, 16},
    {"q5_k_m", {gguf_type::q5_k, true}, 17},
    {"q6_k", {gguf_type::q6_k}, 18},
}};

const mixture_row& mixture_row_of(const gguf_mixture& m) {
  return *std::ranges::find_if(
      mixture_table, [&](const mixture_row& r) { return r.mixture.type == m.type && r.mixture.medium == m.medium; });
}

/// True if a `_m` mixture stores matrices of transformer block `block` in more bits: true for the first and the last
/// eighth of the blocks, and for every third block between.
bool counts_most(uint32_t block, uint32_t blocks) {
  const uint32_t eighth = blocks / 8;
  return block < eighth || block >= 7 * blocks / 8 || (block - eighth) % 3 == 2;
}

gguf_type wanted_type(const gguf_mixture& m, const gguf_place& place, uint32_t blocks, bool tied) {
  if (m.embeddings && (place.name == gguf_head_name || place.name == gguf_embedding_name)) return *m.embeddings;
  if (!m.medium) return m.type;
  if (place.name == gguf_head_name || (tied && place.name == gguf_embedding_name)) return gguf_type::q6_k;
  if (place.name.ends_with(".attn_qkv.weight")) return m.type == gguf_type::q4_k ? gguf_type::q5_k : gguf_type::q6_k;
  const bool is_chosen = place.name.ends_with(".attn_v.weight") || place.name.ends_with(".ffn_down.weight");
  return is_chosen && place.block && counts_most(*place.block, blocks) ? gguf_type::q6_k : m.type;
}

/// Returns the next larger type with smaller blocks, for rows that do not divide into blocks of type `t`.
gguf_type next_larger(gguf_type t) {
  switch (t) {
    case gguf_type::q4_k:
      return gguf_type::q5_0;
    case gguf_type::q5_k:
      return gguf_type::q5_1;
    case gguf_type::q6_k:
      return gguf_type::q8_0;
    default:
      return gguf_type::f16;
  }
}

}  // namespace

std::optional<gguf_mixture> mixture_from(std::string_view text) {
  const auto at = std::ranges::find(mixture_table, text, &mixture_row::name);
  return at == mixture_table.end() ? std::nullopt : std::optional(at->mixture);
}

std::string name_of(const gguf_mixture& m) { return std::string(mixture_row_of(m).name); }

std::vector<std::string> all_mixtures() {
  std::vector<std::string> out;
  for (const auto& r : mixture_table) out.emplace_back(r.name);
  return out;
}

std::string mixture_names() {
  std::string out;
  for (const auto& r : mixture_table) out.append(out.empty() ? "" : ", ").append(r.name);
  return out;
}

uint32_t file_type_of(const gguf_mixture& m) { return mixture_row_of(m).file_type; }

gguf_type type_for(const gguf_mixture& m, const gguf_place& place, uint64_t row_elements, size_t extents,
                   uint32_t blocks, bool tied) {
  if (extents < 2 || place.name == gguf_positions_name) return gguf_type::f32;
  gguf_type out = wanted_type(m, place, blocks, tied);
  while (row_elements % block_elements(out) != 0) out = next_larger(out);
  return out;
}

}  // namespace troupe::formats
