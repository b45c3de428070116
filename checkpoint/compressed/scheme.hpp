// How a folder's linear weights are compressed: the formats of compressed-tensors that are read and written, and how
// config.json says which. Owns names and keys; the arithmetic is kernels/compress/weight_codes.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "kernels/compress/weight_codes.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view quantization_config_key = "quantization_config";
inline constexpr std::string_view compressed_tensors_method = "compressed-tensors";
/// DeepSeek's, read by fp8.hpp.
inline constexpr std::string_view fp8_method = "fp8";

/// How the codes of a weight lie in its tensors.
enum class compressed_layout : uint8_t {
  pack_quantized,   ///< integers of 2 to 8 bits in 32-bit words
  int_quantized,    ///< 8-bit integers; activations become such, too, when the model runs
  float_quantized,  ///< E4M3
  mxfp4,            ///< E2M1, a power of two for each 32
  nvfp4             ///< E2M1, an E4M3 scale for each 16, one scale for all
};
/// "pack-quantized", "mxfp4-pack-quantized" ...: as config.json has them; and back, nothing for any other.
std::string_view name_of(compressed_layout layout);
std::optional<compressed_layout> compressed_layout_from(std::string_view name);

/// How one weight is compressed.
struct weight_scheme {
  compressed_layout layout = compressed_layout::pack_quantized;
  uint32_t bits = 4;        ///< of a code
  bool symmetric = true;    ///< else groups have zero points: pack_quantized and int_quantized
  uint64_t group_size = 0;  ///< columns that share a scale; 0: a row
  /// Of scales, where the layout does not say: f32, bf16 or f16. What the codes mean is of this type, or bf16 of E2M1.
  core::dtype scale_type = core::dtype::bf16;

  [[nodiscard]] kernels::code_format codes() const;
  [[nodiscard]] core::dtype value_type() const;
};

/// What a user asks for: `int4`, `int8` (integers of 2 to 8 bits), `w8a8`, `fp8`, `mxfp4`, `nvfp4`; a group of 0
/// columns is a row. Refused with what was wanted: other names, groups and zero points that the format has not.
struct scheme_wish {
  std::string format = "int4";
  std::optional<uint64_t> group_size{};  ///< none: 128 of `int2` to `int7`, a row of `int8`, `w8a8` and `fp8`
  bool asymmetric = false;
  core::dtype type = core::dtype::bf16;  ///< of scales and of what is not compressed
};
core::result<weight_scheme> scheme_of(const scheme_wish& wish);
/// Every format that a wish may name.
std::span<const std::string_view> scheme_formats();

/// The text of `config` (a JSON object) with the key quantization_config that says how all linear layers but `ignored`
/// are compressed.
core::result<std::string> with_quantization_config(const std::string& config, const weight_scheme& scheme,
                                                   const std::vector<std::string>& ignored);
/// The text without it; as it is where it has none or is no JSON object.
std::string without_quantization_config(const std::string& config);

/// One of config.json's groups: modules whose names or classes it names, and their scheme, the type of scales aside.
struct scheme_group {
  std::vector<std::string> targets;  ///< `Linear`, a module's name, `re:` and a pattern that its name begins with
  weight_scheme scheme;
};
/// The groups of a config.json; nothing where it has no quantization_config of this method, or one that leaves weights
/// as they are. Groups of activations alone are not in the list, which is empty where there are no others. Refused with
/// the key: what is no such configuration, layouts, strategies and widths that are not read.
core::result<std::optional<std::vector<scheme_group>>> read_schemes(const std::string& config);

/// The scheme of a module; null where no group names it.
const weight_scheme* find_scheme(const std::vector<scheme_group>& groups, std::string_view module);

}  // namespace troupe::checkpoint
