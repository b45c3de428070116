#include "apps/plan_compression.hpp"

#include <algorithm>
#include <vector>

#include "apps/block_names.hpp"
#include "core/text.hpp"
#include "plan/show/render.hpp"

namespace troupe::apps {
namespace {

std::string grid_text(const kernels::weight_recipe& r) {
  using enum kernels::quantiser_kind;
  switch (r.grid.kind) {
    case symmetric:
      return std::to_string(r.grid.bits) + " bits, symmetric";
    case asymmetric:
      return std::to_string(r.grid.bits) + " bits, asymmetric";
    case ternary:
      return "ternary";
    case binary:
      return "binary";
  }
  return "?";
}

}  // namespace

std::string compression_summary(const job::blueprint& b) {
  if (b.compression->modules.empty()) return {};
  std::vector<std::vector<std::string>> rows{{"compressed", "modules", "", "scales", "group", "from update"}};
  for (const auto& m : b.compression->modules) {
    const std::vector<std::string> row = {for_all_blocks(m.module),        "1",     grid_text(m.recipe),
                                          std::to_string(m.recipe.groups), m.group, std::to_string(m.from_update)};
    const auto is_alike = [&](const std::vector<std::string>& other) {
      return other[0] == row[0] && std::equal(row.begin() + 2, row.end(), other.begin() + 2);
    };
    const auto same = std::find_if(rows.begin() + 1, rows.end(), is_alike);
    if (same == rows.end())
      rows.push_back(row);
    else
      (*same)[1] = std::to_string(std::stoul((*same)[1]) + 1);
  }
  uint64_t most = 0;
  for (const auto& pools : b.pools) most = std::max(most, pools.of(plan::pool::compressed));
  return plan::aligned(rows, {false, true, false, true, false, true}) + "their copies take at most " +
         core::human_bytes(most) + " of a rank\n";
}

}  // namespace troupe::apps
