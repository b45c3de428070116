// Computes the parameters of Llama 3's scaling of rotary positions from the divisors of the frequencies, because GGUF
// files store only the divisors (rope_freqs.weight).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe::formats {

/// Keys of config.json's rope_scaling of the type llama3: waves longer than original_positions / low_frequency_factor
/// are stretched by `factor`, shorter ones than original_positions / high_frequency_factor stay, those between are
/// interpolated.
struct llama3_scaling {
  double factor = 1, low_frequency_factor = 1, high_frequency_factor = 4;
  uint32_t original_positions = 0;
};

/// Returns the divisor of each frequency of heads with `pairs` pairs of elements, for the base `theta`.
std::vector<double> llama3_divisors(const llama3_scaling& s, double theta, size_t pairs);

/// Returns the scaling that gives `divisors`, one for each pair of a head's elements. Only the quotients of the
/// original positions and the two frequency factors follow from divisors: `original`, if above 0, is the number of
/// original positions, else the low frequency factor is 1 (or near it, where the positions would not be whole).
/// `positions` is the model's number of positions. Nothing if no scaling gives these divisors within the rounding of
/// fp32.
std::optional<llama3_scaling> llama3_scaling_of(std::span<const float> divisors, double theta, uint32_t original,
                                                uint32_t positions);

}  // namespace troupe::formats
