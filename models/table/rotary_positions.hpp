// The rotary positions of a model: the base of their frequencies, and how the frequencies are changed for sequences
// longer than those that the model was first trained on. Reads config.json's keys and computes frequencies. No Torch
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// How the frequencies of rotary positions are scaled, by transformers' names of rope_type; `plain` is its "default".
enum class rope_type : uint8_t {
  plain,
  linear,  ///< all frequencies are divided by a factor (Chen et al. 2023, arXiv:2306.15595)
  /// the base grows with the length of sequences beyond the model's positions; shorter sequences use `plain`
  dynamic,
  llama3,  ///< long waves are stretched by a factor, short ones stay, the ones between are interpolated (Llama 3.1)
  /// stretched and original frequencies are mixed by a ramp over dimensions, and scores are scaled (Peng et al. 2023,
  /// arXiv:2309.00071)
  yarn,
  longrope,  ///< each frequency has factors of its own, two lists of them (Ding et al. 2024, arXiv:2402.13753)
};

/// Returns transformers' name of the type, such as "default" or "llama3".
std::string_view name_of(rope_type type);
/// Returns the type that transformers calls `name`; nullopt if Troupe does not have it.
std::optional<rope_type> rope_type_named(std::string_view name);
/// Returns the names of all types, for messages: "default, linear, ...".
std::string rope_types_joined();

/// Kind of rotary positions that a block has.
enum class rotation : uint8_t {
  usual,  ///< the positions of most blocks, model_spec::rope
  local,  ///< positions of blocks with a window of attention (model_spec::local_rope), in models in which they differ
  none,   ///< no positions: queries and keys are not rotated
};

struct rotary_positions {
  double theta = 10000.0;  ///< base of the frequencies
  rope_type type = rope_type::plain;
  double factor = 1;                ///< factor by which long waves are stretched
  uint32_t original_positions = 0;  ///< positions of the model before it was scaled
  /// llama3: quotients of the original positions and the longest and shortest interpolated wave
  double low_frequency_factor = 1, high_frequency_factor = 4;
  /// yarn: number of turns within the original positions at both ends of the ramp
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  ///< yarn: true: the ends of the ramp are rounded to whole dimensions
  /// Factor of cosines and sines; nullopt: the formula of the type determines it.
  std::optional<double> attention_factor = {};
  double mscale = 0, mscale_all_dim = 0;  ///< yarn: weights in the formula of the attention factor; 0: absent
  /// longrope: factor of each frequency's wavelength, up to the original positions and beyond them.
  std::vector<double> short_factors = {}, long_factors = {};

  bool operator==(const rotary_positions&) const = default;
  /// True if sequences of up to `columns` tokens need two tables of frequencies: one for sequences of up to
  /// `original_positions` tokens, one for longer sequences.
  [[nodiscard]] bool has_two_tables(uint64_t columns) const {
    return type == rope_type::longrope && columns > original_positions;
  }
};

/// Angles by which a token's pairs of elements are rotated, per position, and the factor of cosines and sines.
template <typename T>
struct rotary_frequencies {
  std::vector<T> angles;  ///< [pair]: radians per position, for head width / 2 pairs
  T scale = 1;            ///< factor by which cosines and sines are multiplied
};

/// Returns the frequencies for heads of `head_width` elements in sequences of `columns` tokens, computed in T with the
/// operations of transformers' modeling_rope_utils in their order, because other roundings change the angles of far
/// positions visibly. T is float or double.
template <typename T>
rotary_frequencies<T> frequencies_of(const rotary_positions& rope, uint32_t head_width, uint64_t columns);

/// Returns how the frequencies of `rope` are scaled as one text, for comparisons and messages: "default", "llama3,
/// factor 8, 8192 original positions ...". Numbers are shown as fp32.
std::string text_of(const rotary_positions& rope);

}  // namespace troupe::models
