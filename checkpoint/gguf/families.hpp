// What GGUF files call the parameters of the families that are known, and in which order they store their elements.
// Names only; sizes are gguf_model's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::checkpoint {

/// How a stored matrix differs from ours.
enum class gguf_order : uint8_t {
  same,
  transposed,    ///< GPT-2's weights are (in, out) with us
  query_rotary,  ///< rows of each head: ours are halves of pairs, the file has pairs side by side
  key_rotary,    ///< the same over the heads of keys and values
};

/// A parameter in a file.
struct gguf_place {
  std::string name;
  gguf_order order = gguf_order::same;
  std::optional<uint32_t> block{};  ///< the block that it belongs to
};

/// Where the parameter of that bare name (name_map.hpp) lies. Architectures are `gpt2` and `llama`. Nothing for a name
/// that the architecture does not have.
std::optional<gguf_place> gguf_place_of(std::string_view architecture, std::string_view bare_name);

/// The way back: the bare name of what lies there, with its order and block.
std::optional<gguf_place> parameter_of(std::string_view architecture, std::string_view gguf_name);

inline constexpr std::string_view gguf_embedding_name = "token_embd.weight", gguf_head_name = "output.weight",
                                  gguf_positions_name = "position_embd.weight",
                                  gguf_rope_factors_name = "rope_freqs.weight";

/// The row of ours, of a head's `width` rows, that is row `row` of the file's.
constexpr uint64_t rotary_row(uint64_t row, uint64_t width) { return row % 2 * (width / 2) + row / 2; }

}  // namespace troupe::checkpoint
