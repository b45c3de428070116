#include "formats/gguf/rope_divisors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

namespace troupe::formats {
namespace {

/// Largest relative difference of a divisor that a converter computed in fp32.
constexpr double fp32_difference = 1e-5;
/// Relative difference of divisors that counts as none.
constexpr double no_difference = 1e-6;

double wave_of(size_t pair, double theta, size_t pairs) {
  return 2 * std::numbers::pi * std::pow(theta, static_cast<double>(pair) / static_cast<double>(pairs));
}

/// Returns the largest relative difference of the divisors of `s` to `divisors`; infinity for an impossible scaling.
double difference_of(const llama3_scaling& s, std::span<const float> divisors, double theta) {
  double out =
      s.low_frequency_factor > 0 && s.high_frequency_factor > s.low_frequency_factor && s.original_positions > 0
          ? 0
          : std::numeric_limits<double>::infinity();
  const auto computed = llama3_divisors(s, theta, divisors.size());
  for (size_t i = 0; i < divisors.size(); ++i)
    out = std::max(out, std::abs(computed[i] - double{divisors[i]}) / double{divisors[i]});
  return out;
}

/// An interpolated frequency: waves per position, and the share of the frequency that is not stretched.
struct interpolated {
  double waves = 0, share = 0;
};

std::vector<interpolated> interpolated_among(std::span<const float> divisors, double factor, double theta) {
  constexpr double margin = 1e-6;
  std::vector<interpolated> out;
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double d = divisors[i];
    if (d <= 1 + margin || d >= factor * (1 - margin)) continue;
    out.push_back({1 / wave_of(i, theta, divisors.size()), (1 / d - 1 / factor) / (1 - 1 / factor)});
  }
  return out;
}

uint32_t whole_positions(double x) {
  return x >= 1 && x < std::numeric_limits<uint32_t>::max() ? static_cast<uint32_t>(std::round(x)) : 1;
}

/// Returns scalings that may give the divisors. The share of an interpolated frequency is linear in its waves per
/// position: (original x waves - low) / (high - low).
std::vector<llama3_scaling> candidates(std::span<const interpolated> between, double factor, uint32_t original,
                                       uint32_t positions) {
  constexpr double usual_low = 1, usual_high = 4;
  constexpr uint32_t usual_original = 8192;
  std::vector<llama3_scaling> out;
  if (between.size() > 1) {
    const auto &first = between.front(), &last = between.back();
    const double slope = (first.share - last.share) / (first.waves - last.waves);
    const double at_zero = last.share - slope * last.waves;
    if (!(slope > 0) || !(at_zero < 0)) return out;
    const uint32_t whole = original > 0 ? original : whole_positions(-slope / at_zero);
    const double width = whole / slope;
    out.push_back({factor, -at_zero * width, (1 - at_zero) * width, whole});
  } else if (between.size() == 1 && original > 0) {
    const auto [waves, share] = between.front();
    out.push_back({factor, usual_low, usual_low + (original * waves - usual_low) / share, original});
    out.push_back({factor, (original * waves - usual_high * share) / (1 - share), usual_high, original});
  } else if (between.size() == 1) {
    const auto [waves, share] = between.front();
    out.push_back(
        {factor, usual_low, usual_high, whole_positions((share * (usual_high - usual_low) + usual_low) / waves)});
  } else if (original > 0) {
    out.push_back({factor, usual_low, usual_high, original});
  } else {
    for (const uint32_t whole : {usual_original, positions, whole_positions(positions / factor)})
      out.push_back({factor, usual_low, usual_high, whole});
  }
  return out;
}

/// Returns the scaling with frequency factors of at most three decimals, as people write them.
llama3_scaling in_three_decimals(llama3_scaling s) {
  for (double* x : {&s.low_frequency_factor, &s.high_frequency_factor}) *x = std::round(*x * 1000) / 1000;
  return s;
}

}  // namespace

std::vector<double> llama3_divisors(const llama3_scaling& s, double theta, size_t pairs) {
  std::vector<double> out;
  for (size_t i = 0; i < pairs; ++i) {
    const double turns = s.original_positions / wave_of(i, theta, pairs);
    if (turns > s.high_frequency_factor) {
      out.push_back(1);
    } else if (turns < s.low_frequency_factor) {
      out.push_back(s.factor);
    } else {
      const double share = (turns - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor);
      out.push_back(1 / ((1 - share) / s.factor + share));
    }
  }
  return out;
}

std::optional<llama3_scaling> llama3_scaling_of(std::span<const float> divisors, double theta, uint32_t original,
                                                uint32_t positions) {
  if (divisors.empty() || !std::ranges::all_of(divisors, [](float d) { return std::isfinite(d) && d > 0.5F; }))
    return std::nullopt;
  const double factor = std::ranges::max(divisors);
  if (factor <= 1) return std::nullopt;
  for (const auto& found : candidates(interpolated_among(divisors, factor, theta), factor, original, positions)) {
    const double exact = difference_of(found, divisors, theta);
    if (difference_of(in_three_decimals(found), divisors, theta) <=
        std::min(4 * exact + no_difference, fp32_difference))
      return in_three_decimals(found);
    if (exact <= fp32_difference) return found;
  }
  return std::nullopt;
}

}  // namespace troupe::formats
