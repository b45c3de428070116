// Maps parameter names to their names in GGUF files by the tables of model families in families/, and returns the order
// in which a GGUF file stores a parameter's elements. gguf_model owns the sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "families/family.hpp"

namespace troupe::formats {

using families::gguf_order;

/// Name, element order and block of a parameter.
struct gguf_place {
  std::string name;
  gguf_order order = gguf_order::same;
  std::optional<uint32_t> block{};  ///< number of the transformer block that owns the parameter, if any
};

/// Returns the GGUF name, order and block of the parameter with the bare name `bare_name` (name_map.hpp).
/// `architecture` is the family's value of `general.architecture`. Returns nothing for an unknown name.
std::optional<gguf_place> gguf_place_of(std::string_view architecture, std::string_view bare_name);

/// Returns the bare name, order and block of the tensor that a GGUF file calls `gguf_name`; the inverse of
/// gguf_place_of().
std::optional<gguf_place> parameter_of(std::string_view architecture, std::string_view gguf_name);

/// Returns the names in GGUF files of the parameters that every model of the family with `blocks` blocks has. Biases
/// are included only if the family always has them.
std::vector<std::string> certain_gguf_names(const families::family& f, uint32_t blocks);

inline constexpr std::string_view gguf_embedding_name = "token_embd.weight", gguf_head_name = "output.weight",
                                  gguf_positions_name = "position_embd.weight",
                                  gguf_rope_factors_name = "rope_freqs.weight",
                                  gguf_short_factors_name = "rope_factors_short.weight",
                                  gguf_long_factors_name = "rope_factors_long.weight";

/// True for the name of a tensor in GGUF files whose values follow from a model's `rope_scaling`.
constexpr bool is_rope_tensor(std::string_view name) {
  return name == gguf_rope_factors_name || name == gguf_short_factors_name || name == gguf_long_factors_name;
}

/// Returns the row of the model's matrix, within a head of `width` rows, that the GGUF file stores as row `row` of that
/// head.
constexpr uint64_t rotary_row(uint64_t row, uint64_t width) { return row % 2 * (width / 2) + row / 2; }

}  // namespace troupe::formats
