#include "models/table/rotary_positions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace troupe::models {
namespace {

constexpr std::array<std::pair<std::string_view, rope_type>, 6> types{{{"default", rope_type::plain},
                                                                       {"linear", rope_type::linear},
                                                                       {"dynamic", rope_type::dynamic},
                                                                       {"llama3", rope_type::llama3},
                                                                       {"yarn", rope_type::yarn},
                                                                       {"longrope", rope_type::longrope}}};

/// Returns the dimension whose wave turns `rotations` times in `positions` tokens.
double dimension_of(double rotations, double width, double base, double positions) {
  return width * std::log(positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
}

double yarn_scale(double factor, double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

double attention_factor_of(const rotary_positions& r) {
  if (r.attention_factor) return *r.attention_factor;
  if (r.type == rope_type::yarn) {
    if (r.mscale != 0 && r.mscale_all_dim != 0)
      return yarn_scale(r.factor, r.mscale) / yarn_scale(r.factor, r.mscale_all_dim);
    return yarn_scale(r.factor, 1);
  }
  if (r.type != rope_type::longrope || r.factor <= 1) return 1;
  return std::sqrt(1 + std::log(r.factor) / std::log(static_cast<double>(r.original_positions)));
}

/// Stretches waves that are longer than the original positions, as Llama 3.1 does. Quotients of a number by a vector
/// are products with reciprocals, as in Torch.
template <typename T>
void stretch_as_llama3(const rotary_positions& r, std::vector<T>& angles) {
  const auto original = static_cast<double>(r.original_positions);
  const auto longest = static_cast<T>(original / r.low_frequency_factor);
  const auto shortest = static_cast<T>(original / r.high_frequency_factor);
  const auto factor = static_cast<T>(r.factor), low = static_cast<T>(r.low_frequency_factor);
  const auto width = static_cast<T>(r.high_frequency_factor - r.low_frequency_factor);
  for (T& angle : angles) {
    const T wave = T{1} / angle * static_cast<T>(2 * std::numbers::pi);
    if (wave > longest) {
      angle = angle / factor;
    } else if (wave >= shortest) {
      const T smooth = (T{1} / wave * static_cast<T>(original) - low) / width;
      angle = (T{1} - smooth) * angle / factor + smooth * angle;
    }
  }
}

/// Mixes stretched and original frequencies by a ramp over the dimensions, equations 22 and 23 of YaRN's paper.
template <typename T>
void stretch_as_yarn(const rotary_positions& r, uint32_t head_width, std::vector<T>& angles) {
  const double width = head_width, positions = r.original_positions;
  double low = dimension_of(r.beta_fast, width, r.theta, positions);
  double high = dimension_of(r.beta_slow, width, r.theta, positions);
  if (r.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < angles.size(); ++i) {
    const T power = static_cast<T>(2 * i) / static_cast<T>(head_width);
    const T wave = std::pow(static_cast<T>(r.theta), power);
    const T stretched = T{1} / (static_cast<T>(r.factor) * wave), kept = T{1} / wave;
    const T ramp = std::clamp((static_cast<T>(i) - static_cast<T>(low)) / static_cast<T>(high - low), T{0}, T{1});
    const T share = T{1} - ramp;
    angles[i] = stretched * (T{1} - share) + kept * share;
  }
}

}  // namespace

std::string_view name_of(rope_type type) {
  return std::ranges::find(types, type, &decltype(types)::value_type::second)->first;
}

std::optional<rope_type> rope_type_named(std::string_view name) {
  const auto at = std::ranges::find(types, name, &decltype(types)::value_type::first);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

std::string rope_types_joined() {
  std::vector<std::string_view> names;
  for (const auto& [name, type] : types) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

template <typename T>
rotary_frequencies<T> frequencies_of(const rotary_positions& rope, uint32_t head_width, uint64_t columns) {
  rotary_frequencies<T> out;
  out.scale = static_cast<T>(attention_factor_of(rope));
  const bool is_long = rope.has_two_tables(columns);
  for (uint32_t i = 0; i < head_width / 2; ++i) {
    const T power = static_cast<T>(2 * i) / static_cast<T>(head_width);
    T wave = std::pow(static_cast<T>(rope.theta), power);
    if (rope.type == rope_type::longrope)
      wave = static_cast<T>((is_long ? rope.long_factors : rope.short_factors)[i]) * wave;
    out.angles.push_back(T{1} / wave);
  }
  if (rope.type == rope_type::linear)
    for (T& angle : out.angles) angle = angle / static_cast<T>(rope.factor);
  if (rope.type == rope_type::llama3) stretch_as_llama3(rope, out.angles);
  if (rope.type == rope_type::yarn) stretch_as_yarn(rope, head_width, out.angles);
  return out;
}

template rotary_frequencies<float> frequencies_of<float>(const rotary_positions&, uint32_t, uint64_t);
template rotary_frequencies<double> frequencies_of<double>(const rotary_positions&, uint32_t, uint64_t);

std::string text_of(const rotary_positions& r) {
  std::string out(name_of(r.type));
  if (r.type == rope_type::plain || r.type == rope_type::dynamic) return out;
  if (r.type != rope_type::longrope) out += fmt::format(", factor {}", static_cast<float>(r.factor));
  if (r.type != rope_type::linear) out += fmt::format(", {} original positions", r.original_positions);
  if (r.type == rope_type::llama3)
    out += fmt::format(", low_freq_factor {}, high_freq_factor {}", static_cast<float>(r.low_frequency_factor),
                       static_cast<float>(r.high_frequency_factor));
  if (r.type == rope_type::yarn)
    out += fmt::format(", beta_fast {}, beta_slow {}{}", static_cast<float>(r.beta_fast),
                       static_cast<float>(r.beta_slow), r.truncate ? "" : ", not truncated");
  if (r.type == rope_type::yarn || r.type == rope_type::longrope)
    out += fmt::format(", attention factor {}", static_cast<float>(attention_factor_of(r)));
  if (r.type == rope_type::longrope)
    out += fmt::format(", short factors {}, long factors {}", fmt::join(r.short_factors, " "),
                       fmt::join(r.long_factors, " "));
  return out;
}

}  // namespace troupe::models
