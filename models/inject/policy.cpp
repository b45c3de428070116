#include "models/inject/policy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/text.hpp"
#include "formats/names/name_pattern.hpp"

namespace troupe::models {

using core::tp_style;

std::string exactly(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!core::is_ascii_word(c) && c != '_') out += '\\';
    out += c;
  }
  return out;
}

bool names_layer(std::string_view name, std::string_view module) {
  constexpr std::string_view weight = ".weight";
  if (name.ends_with(weight)) name.remove_suffix(weight.size());
  if (name.empty() || !module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

core::result<size_t> rule_of(const injection_policy& policy, const std::string& module) {
  const std::string text = module + ".weight";
  for (size_t i = 0; i < policy.rules.size(); ++i) {
    const auto pattern = formats::name_pattern::of(policy.rules[i].pattern);
    if (!pattern) return core::fail(pattern.error().in("injection"));
    if (pattern->matches(text)) return i;
  }
  return policy.rules.size();
}

namespace {

/// Endings of names of linear layers that are row layers, in published model families whose norms are not torch's, so
/// that the order of layers does not show it.
constexpr std::string_view row_endings[] = {"attention.dense", "self_attention.dense", "self_attn.dense", "w2"};

}  // namespace

std::vector<tp_style> guessed_styles(std::span<const listed_layer> unit) {
  std::vector<tp_style> out(unit.size(), tp_style::column);
  const auto last = std::ranges::find_if(unit.rbegin(), unit.rend(), [](const auto& l) { return !l.is_norm; });
  if (last == unit.rend()) return std::vector<tp_style>(unit.size(), tp_style::replicated);
  for (size_t i = 0; i < unit.size(); ++i) {
    const auto called = [&](const char* part) { return unit[i].name.find(part) != std::string::npos; };
    if (unit[i].is_norm) {
      out[i] = tp_style::replicated;
      if (i == 0) out[static_cast<size_t>(unit.rend() - last) - 1] = tp_style::row;
      if (i > 0 && !unit[i - 1].is_norm) out[i - 1] = tp_style::row;
    } else if (called("out_proj") || called("o_proj") || called("down_proj") || called("dense_4h_to_h") ||
               std::ranges::any_of(row_endings, [&](auto name) { return names_layer(name, unit[i].name); })) {
      out[i] = tp_style::row;
    }
  }
  if (std::ranges::count(out, tp_style::row) == 0) std::ranges::fill(out, tp_style::replicated);
  return out;
}

std::vector<std::vector<uint64_t>> likely_parts(uint64_t outputs, uint64_t inputs) {
  std::vector<std::vector<uint64_t>> out;
  if (inputs > 0 && outputs == 2 * inputs) out.push_back({inputs, inputs});
  if (inputs > 0 && outputs > inputs && (outputs - inputs) % 2 == 0)
    out.push_back({inputs, (outputs - inputs) / 2, (outputs - inputs) / 2});
  out.emplace_back();
  return out;
}

double share_of(uint32_t coordinate, uint32_t degree) {
  const auto doublings = static_cast<uint32_t>(std::bit_width(degree - 1));  // least number with 2^doublings >= degree
  // Number of coordinates whose fraction is doubled so that the sum over all coordinates is 1.
  const uint32_t halves = (uint32_t{1} << doublings) - degree;
  return std::ldexp(1.0, (coordinate < halves ? 1 : 0) - static_cast<int>(doublings));
}

}  // namespace troupe::models
