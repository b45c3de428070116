#include "apps/plan_compression.hpp"

#include <algorithm>
#include <vector>

#include "apps/block_names.hpp"
#include "core/text.hpp"
#include "plan/show/render.hpp"

namespace troupe::apps {
namespace {

std::string text_of(const kernels::quantiser& grid) {
  using enum kernels::quantiser_kind;
  switch (grid.kind) {
    case symmetric:
      return std::to_string(grid.bits) + " bits, symmetric";
    case asymmetric:
      return std::to_string(grid.bits) + " bits, asymmetric";
    case ternary:
      return "ternary";
    case binary:
      return "binary";
  }
  return "?";
}

/// Rows whose modules are compressed alike become one; the second cell counts them.
class summary_rows {
 public:
  void add(const std::string& module, const std::string& what, const std::string& scales, const std::string& group,
           uint64_t from_update) {
    const std::vector<std::string> row = {for_all_blocks(module),     "1", what, scales, group,
                                          std::to_string(from_update)};
    const auto is_alike = [&](const std::vector<std::string>& other) {
      return other[0] == row[0] && std::equal(row.begin() + 2, row.end(), other.begin() + 2);
    };
    const auto same = std::find_if(rows.begin() + 1, rows.end(), is_alike);
    if (same == rows.end())
      rows.push_back(row);
    else
      (*same)[1] = std::to_string(std::stoul((*same)[1]) + 1);
  }
  std::vector<std::vector<std::string>> rows{{"compressed", "modules", "", "scales", "group", "from update"}};
};

}  // namespace

std::string compression_summary(const job::blueprint& b) {
  const auto& all = *b.compression;
  if (all.modules.empty() && all.layers.empty()) return {};
  summary_rows out;
  for (const auto& m : all.modules)
    out.add(m.module, "weight: " + text_of(m.recipe.grid), std::to_string(m.recipe.groups), m.group, m.from_update);
  for (const auto& l : all.layers) out.add(l.module, "input: " + text_of(l.grid), "each token", l.group, l.from_update);
  uint64_t most = 0;
  for (const auto& pools : b.pools) most = std::max(most, pools.of(plan::pool::compressed));
  return plan::aligned(out.rows, {false, true, false, true, false, true}) + "copies of weights take at most " +
         core::human_bytes(most) + " of a rank\n";
}

}  // namespace troupe::apps
