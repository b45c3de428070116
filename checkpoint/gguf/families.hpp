// Maps parameter names of known families to their names in GGUF files, and says in which order the file stores the
// elements. Owns names only; gguf_model has the sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::checkpoint {

/// How the element order of a stored matrix differs from that of a model's parameter.
enum class gguf_order : uint8_t {
  same,
  transposed,  ///< GPT-2's weights, stored as (out, in), are (in, out) in the model
  /// rows within a head: the model stores the two halves of all pairs one after the other, the file stores each pair
  /// side by side
  query_rotary,
  key_rotary,  ///< query_rotary's order, for the heads of keys and values
};

/// Name, element order and block of a parameter.
struct gguf_place {
  std::string name;
  gguf_order order = gguf_order::same;
  std::optional<uint32_t> block{};  ///< number of the transformer block, for parameters of one
};

/// Returns the GGUF name, order and block of the parameter with the bare name `bare_name` (name_map.hpp).
/// `architecture` is `gpt2` or `llama`. Nothing for a name that the architecture does not have.
std::optional<gguf_place> gguf_place_of(std::string_view architecture, std::string_view bare_name);

/// Returns the bare name, order and block of the tensor that a GGUF file calls `gguf_name`; the inverse of
/// gguf_place_of().
std::optional<gguf_place> parameter_of(std::string_view architecture, std::string_view gguf_name);

inline constexpr std::string_view gguf_embedding_name = "token_embd.weight", gguf_head_name = "output.weight",
                                  gguf_positions_name = "position_embd.weight",
                                  gguf_rope_factors_name = "rope_freqs.weight";

/// Returns the model's row, within a head of `width` rows, that the file stores as row `row` of that head.
constexpr uint64_t rotary_row(uint64_t row, uint64_t width) { return row % 2 * (width / 2) + row / 2; }

}  // namespace troupe::checkpoint
