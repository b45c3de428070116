#include "core/tp_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace troupe::core {

uint64_t sum_of(const tp_widths& widths) { return std::accumulate(widths.begin(), widths.end(), uint64_t{0}); }

uint64_t widest_of(const tp_widths& widths) { return widths.empty() ? 0 : *std::ranges::max_element(widths); }

tp_widths dealt(uint64_t total, uint32_t degree, uint64_t grain) {
  if (total < grain) grain = 1;
  const uint64_t grains = total / grain;
  tp_widths out(degree, grains / degree * grain);
  for (uint64_t t = 0; t < grains % degree; ++t) out[t] += grain;
  out.back() += total % grain;
  return out;
}

tp_widths dealt_by_heads(uint64_t total, uint32_t heads, uint32_t degree) {
  tp_widths out = dealt(heads, degree);
  for (uint64_t& width : out) width *= total / heads;
  return out;
}

core::result<void> check_cut(const std::string& name, const std::vector<int64_t>& shape, const parameter_cut& cut,
                             uint32_t degree) {
  const auto refuse = [&](const std::string& what) {
    return fail(error_kind::bad_input, "the tensor-parallel cut of '" + name + "': " + what);
  };
  if ((cut.style == tp_style::replicated) != cut.parts.empty())
    return refuse(cut.parts.empty() ? "wanted the widths of its parts, got none"
                                    : "wanted no widths of a replicated parameter, got some");
  if (!cut.cuts()) return {};
  if (cut.dimension >= shape.size())
    return refuse(fmt::format("wanted one of {} dimensions, got dimension {}", shape.size(), cut.dimension));
  const auto wanted = static_cast<uint64_t>(shape[cut.dimension]);
  const auto other_sum = [&](const std::string& got) {
    return refuse(fmt::format("wanted widths that sum to {} along dimension {}, got {}", wanted, cut.dimension, got));
  };
  uint64_t total = 0;
  for (const tp_widths& part : cut.parts) {
    if (part.size() != degree)
      return refuse(fmt::format("wanted a width for each of {} ranks, got {}", degree, part.size()));
    for (const uint64_t width : part) {
      // The widths may come from an untrusted file, so their sum may exceed 64 bits.
      if (width > UINT64_MAX - total) return other_sum("more than 64 bits hold");
      total += width;
    }
  }
  if (total != wanted) return other_sum(fmt::to_string(total));
  return {};
}

std::vector<int64_t> local_shape(std::vector<int64_t> shape, const parameter_cut& cut) {
  if (!cut.cuts()) return shape;
  uint64_t width = 0;
  for (const tp_widths& part : cut.parts) width += widest_of(part);
  shape[cut.dimension] = static_cast<int64_t>(width);
  return shape;
}

std::string widths_text(const parameter_cut& cut) {
  if (!cut.cuts()) return "-";
  tp_widths all(cut.parts.front().size(), 0);
  for (const tp_widths& part : cut.parts)
    for (size_t t = 0; t < all.size(); ++t) all[t] += part[t];
  std::string out = fmt::format("{}: ", sum_of(all));
  for (size_t t = 0; t < all.size(); ++t) out.append(t == 0 ? "" : ", ").append(fmt::to_string(all[t]));
  return out;
}

}  // namespace troupe::core
