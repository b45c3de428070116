// Formats tensor parallelism for `troupe plan`: which parameters are split, along which dimension, how wide, and the
// exchanges that this causes.
#include "apps/plan/plan_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "apps/base/block_names.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

/// Parameters of the same name in several blocks, which tensor parallelism splits in the same way.
struct cut_row {
  /// Name of the first of the parameters; name that stands for all, with `*` for the block number
  std::string name, shown;
  const core::parameter_cut* cut;
  job::cut_origin origin;
  uint64_t parameters;
};

std::vector<cut_row> rows_of(const job::chosen_tensor& t) {
  std::vector<cut_row> out;
  for (size_t q = 0; q < t.cut.parameters.size(); ++q) {
    const auto& cut = t.cut.parameters[q];
    const auto& info = t.whole->parameters[q];
    if (!cut.cuts() || info.is_copy()) continue;
    const std::string shown = for_all_blocks(info.name);
    const auto same = std::ranges::find_if(
        out, [&](const cut_row& r) { return r.shown == shown && *r.cut == cut && r.origin == t.origins[q]; });
    if (same == out.end())
      out.push_back({info.name, shown, &cut, t.origins[q], 1});
    else
      ++same->parameters;
  }
  return out;
}

}  // namespace

std::string tensor_summary(const job::blueprint& b) {
  std::vector<std::vector<std::string>> rows{{"cut over tensor ranks", "", "dimension", "widths", "by"}};
  for (const cut_row& r : rows_of(b.tensor))
    rows.push_back({r.parameters > 1 ? r.shown : r.name, std::string(name_of(r.cut->style)),
                    fmt::to_string(r.cut->dimension), core::widths_text(*r.cut), std::string(name_of(r.origin))});
  uint64_t exchanges = 0, bytes = 0;
  for (const auto& x : b.train.like(0).instructions) {
    if (x.kind != plan::kind::exchange) continue;
    ++exchanges;
    bytes += x.moved_bytes;
  }
  return fmt::format(
      "{}all other parameters are whole on each of {} tensor ranks; a step of rank 0 has {} exchanges of {} in all\n",
      core::aligned(rows, {false, false, true, false, false}), b.tensor.split.degree, exchanges,
      core::human_bytes(bytes));
}

}  // namespace troupe::apps
