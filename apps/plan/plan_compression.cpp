// Formats the compression in `troupe plan`: the modules that each pattern chose, how they are compressed, and when.
#include "apps/plan/plan_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "apps/base/block_names.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

std::string text_of(const kernels::quantiser& grid) {
  using enum kernels::quantiser_kind;
  switch (grid.kind) {
    case symmetric:
      return fmt::format("{} bits, symmetric", grid.bits);
    case asymmetric:
      return fmt::format("{} bits, asymmetric", grid.bits);
    case ternary:
      return "ternary";
    case binary:
      return "binary";
  }
  return "?";
}

/// Returns a text such as "from 8 bits to " for weights whose number of bits decreases during training; else empty.
std::string from_bits(const job::compressed_module& m) {
  return m.bits && m.bits->start_bits > m.bits->target_bits ? fmt::format("from {} bits to ", m.bits->start_bits) : "";
}

/// Returns a text such as "l1, keeps 128 of 256 rows".
std::string text_of(const job::pruned_module& m) {
  using enum config::pruning_method;
  constexpr std::string_view parts[] = {"elements", "rows", "heads", "channels"};
  const char* const method = m.method == l1 ? "l1" : m.method == topk ? "topk" : "snip_momentum";
  return fmt::format("{}, keeps {} of {} {}", method, m.kept, m.scores(), parts[static_cast<size_t>(m.part)]);
}

/// Collects the rows of the summary: joins the rows of equally compressed modules of several blocks into one with their
/// number, which lists the blocks if some are missing.
class summary_rows {
 public:
  explicit summary_rows(const core::model_table& table) {
    for (const auto& l : table.layers) ++blocks_[for_all_blocks(l.name)];
  }
  void add(const std::string& module, const std::string& what, const std::string& scales, const std::string& group,
           uint64_t from_update) {
    const row_key key{for_all_blocks(module), what, scales, group, fmt::to_string(from_update)};
    const auto same = std::ranges::find(rows_, key, &row::key);
    row& into = same == rows_.end() ? rows_.emplace_back(row{key, {}}) : *same;
    into.modules.push_back(module);
  }
  [[nodiscard]] std::vector<std::vector<std::string>> cells() const {
    std::vector<std::vector<std::string>> out{{"compressed", "modules", "", "scales", "group", "from update"}};
    for (const row& r : rows_) {
      const auto& [module, what, scales, group, from] = r.key;
      const bool all = r.modules.size() == blocks_.at(module);
      out.push_back(
          {all ? module : for_blocks(r.modules), fmt::to_string(r.modules.size()), what, scales, group, from});
    }
    return out;
  }

 private:
  using row_key = std::array<std::string, 5>;
  struct row {
    row_key key;
    std::vector<std::string> modules;  ///< names of the row's modules in the order of the model's table
  };
  std::map<std::string, size_t> blocks_;  ///< [name without the block's number]: number of layers with this name
  std::vector<row> rows_;
};

}  // namespace

std::string compression_summary(const job::blueprint& b) {
  const auto& all = *b.compression;
  if (all.modules.empty() && all.layers.empty() && all.pruned.empty()) return {};
  summary_rows out(*b.table);
  for (const auto& m : all.modules)
    out.add(m.module, "weight: " + from_bits(m) + text_of(m.recipe.grid) + (m.recipe.stochastic ? ", with noise" : ""),
            fmt::to_string(m.recipe.groups), m.group, m.from_update);
  for (const auto& l : all.layers)
    out.add(l.module, "input: " + text_of(l.grid), l.is_static ? "learned" : "each token", l.group, l.from_update);
  for (const auto& m : all.pruned) out.add(m.module, "pruned: " + text_of(m), "-", m.group, m.from_update);
  uint64_t most = 0;
  for (const auto& pools : b.pools) most = std::max(most, pools.of(plan::pool::compressed));
  return core::aligned(out.cells(), {false, true, false, true, false, true}) + "copies of weights take at most " +
         core::human_bytes(most) + " of a rank\n";
}

}  // namespace troupe::apps
