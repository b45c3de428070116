#include "job/degree_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/number.hpp"
#include "core/text.hpp"

namespace troupe::job {
namespace {

std::optional<degree_change> read_one(std::string_view text) {
  const size_t at = text.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto data = core::number_of<uint32_t>(text.substr(0, at));
  const auto step = core::number_of<uint64_t>(text.substr(at + 1));
  if (!data || !step || *data == 0) return std::nullopt;
  return degree_change{*step, *data};
}

tl::unexpected<core::error> refused(const std::string& why, std::string_view got) {
  return core::fail(core::error_kind::bad_input,
                    "degrees: wanted " + why + ", got '" + core::shown(std::string(got)) + "'");
}

}  // namespace

core::result<std::vector<degree_change>> read_degree_changes(std::string_view text) {
  std::vector<degree_change> out;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    const auto change = read_one(one);
    if (!change) return refused("RANKS@STEP with commas between them, as in 3@0,2@20", one);
    if (out.empty() && change->step != 0) return refused("step 0 first", one);
    if (!out.empty() && change->step <= out.back().step) return refused("steps that ascend", text);
    if (!out.empty() && change->data == out.back().data) return refused("another number of ranks than before", one);
    out.push_back(*change);
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

std::string as_sentence(const std::vector<degree_change>& changes, uint64_t steps, uint32_t replica_ranks) {
  std::string ranks, at;
  size_t count = 0;
  for (const degree_change& c : changes) {
    if (c.step > steps) break;
    ranks += fmt::format("{}{}", count == 0 ? "" : " -> ", c.data);
    at += fmt::format("{}{}", count == 0 ? "" : ", ", c.step);
    ++count;
  }
  const std::string unit = ranks == "1" ? "rank" : "ranks";
  const std::string what = replica_ranks == 1 ? unit : fmt::format("data {} of {} ranks", unit, replica_ranks);
  return ranks + " " + what + " at step" + (count == 1 ? " " : "s ") + at;
}

std::string unreached(const std::vector<degree_change>& changes, uint64_t steps) {
  std::string out;
  for (const degree_change& c : changes)
    if (c.step > 0 && c.step >= steps) out += fmt::format("{}{}@{}", out.empty() ? "" : ", ", c.data, c.step);
  return out;
}

core::result<cut_batch> cut_batch_for(uint64_t batch, uint64_t rows_most, uint32_t data) {
  if (data == 0 || batch % data != 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("train_batch_size: wanted a multiple of {} data ranks, got {}", data, batch));
  const uint64_t own = batch / data;
  uint64_t rows = std::min(rows_most, own);
  while (own % rows != 0) --rows;
  return cut_batch{rows, own / rows};
}

}  // namespace troupe::job
