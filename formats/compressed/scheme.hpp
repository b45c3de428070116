// How the linear weights of a folder are compressed: the formats of compressed-tensors that are read and written, fp8,
// and the key of config.json that describes them. Owns names and keys; leaves the arithmetic to
// kernels/compress/weight_codes.hpp.
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

namespace troupe::formats {

inline constexpr std::string_view quantization_config_key = "quantization_config";
inline constexpr std::string_view compressed_tensors_method = "compressed-tensors";
/// Value of quant_method in config.json for the FP8 weights that DeepSeek publishes.
inline constexpr std::string_view fp8_method = "fp8";

/// How the codes of a weight are stored in its tensors.
enum class compressed_layout : uint8_t {
  pack_quantized,   ///< integers of 2 to 8 bits in 32-bit words
  int_quantized,    ///< 8-bit integers; the model also rounds activations to 8-bit integers when it runs
  float_quantized,  ///< 8-bit floating-point codes (E4M3)
  mxfp4,            ///< 4-bit floating-point codes (E2M1), with a power of two as scale for each 32 codes
  nvfp4             ///< E2M1 codes, with an E4M3 scale for each 16 codes and an fp32 scale for the whole weight
};
/// name_of() returns the name of a layout in config.json ("pack-quantized", "mxfp4-pack-quantized" ...).
/// compressed_layout_from() returns the layout with such a name, and nothing for any other name.
std::string_view name_of(compressed_layout layout);
std::optional<compressed_layout> compressed_layout_from(std::string_view name);

/// How one weight is compressed.
struct weight_scheme {
  compressed_layout layout = compressed_layout::pack_quantized;
  uint32_t bits = 4;        ///< number of bits of one code
  bool symmetric = true;    ///< false: groups have zero points (only pack_quantized and int_quantized)
  uint64_t group_size = 0;  ///< number of columns that share a scale; 0: one scale for each row
  /// Type of the scales if the layout leaves it open: f32, bf16 or f16. Decoded values have this type; those of E2M1
  /// codes have bf16.
  core::dtype scale_type = core::dtype::bf16;

  [[nodiscard]] kernels::code_format codes() const;
  [[nodiscard]] core::dtype value_type() const;
};

/// The format that a user requests: `int4`, `int8` (integers of 2 to 8 bits), `w8a8`, `fp8`, `mxfp4`, `nvfp4`; a group
/// of 0 columns is a whole row. scheme_of() returns an error for other names, and for groups and zero points that the
/// format does not have.
struct scheme_wish {
  std::string format = "int4";
  std::optional<uint64_t> group_size{};  ///< number of columns that share a scale; missing: the default of the format
  bool asymmetric = false;
  core::dtype type = core::dtype::bf16;  ///< type of scales and of weights that are not compressed
};
core::result<weight_scheme> scheme_of(const scheme_wish& wish);
/// Returns all names that scheme_wish::format may have.
std::span<const std::string_view> scheme_formats();

/// Returns the text of `config` (a JSON object) with the key quantization_config, which describes how all linear layers
/// except `ignored` are compressed.
core::result<std::string> with_quantization_config(const std::string& config, const weight_scheme& scheme,
                                                   const std::vector<std::string>& ignored);
/// Returns the text of a config.json without the key quantization_config; unchanged if it has no such key or is not a
/// JSON object.
std::string without_quantization_config(const std::string& config);

/// One group of config.json: the modules whose names or classes it names, and their scheme without the type of scales.
struct scheme_group {
  /// `Linear`, a module's name, or `re:` and a pattern that matches from the beginning of the name.
  std::vector<std::string> targets;
  weight_scheme scheme;
};

/// Rows and columns of a weight that share a scale; 0 if config.json names no blocks.
struct scale_blocks {
  uint64_t rows = 0, columns = 0;
};

/// The compression of linear weights that a config.json states.
struct weight_compression {
  std::optional<scale_blocks> fp8;                  ///< set if the method is fp8
  std::optional<std::vector<scheme_group>> groups;  ///< set if the method is compressed-tensors

  /// True if the method is one that is read here, even if it compresses no weight.
  [[nodiscard]] bool is_read() const { return fp8 || groups; }
  /// True if weights are stored as codes, and not only the ranges of activations or of a cache.
  [[nodiscard]] bool has_codes() const { return fp8 || (groups && !groups->empty()); }
};
/// Returns the compression that the text of a config.json states. Returns an error that names the key for a malformed
/// description, for fp8 with codes other than E4M3, and for layouts, strategies and widths that are not read.
core::result<weight_compression> compression_in(const std::string& config);

/// Returns the compression scheme of a module; null if no group names the module or its class.
const weight_scheme* find_scheme(const std::vector<scheme_group>& groups, std::string_view module);

}  // namespace troupe::formats
