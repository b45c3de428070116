#include "models/table/sequence_split.hpp"

#include <numeric>
#include <string>

#include "models/table/model_spec.hpp"

namespace troupe::models {

column_run sequence_split::own_columns(uint64_t all, uint32_t coordinate) const {
  const core::tp_widths each = columns(all);
  const uint64_t first = std::accumulate(each.begin(), each.begin() + coordinate, uint64_t{0});
  return {static_cast<int64_t>(first), static_cast<int64_t>(each[coordinate])};
}

dealt_heads heads_of(const model_spec& block, const sequence_split& split) {
  const uint32_t shared = block.heads / block.kv_heads;
  dealt_heads out{.head_width = block.head_width};
  while (uint64_t{block.kv_heads} * out.repeats < split.degree || shared % out.repeats != 0) ++out.repeats;
  out.group = shared / out.repeats;
  out.kv = core::dealt(uint64_t{block.kv_heads} * out.repeats, split.degree);
  return out;
}

core::result<void> check_sequence(const model_spec& local, uint64_t columns, const sequence_split& split) {
  const auto refuse = [&](const std::string& what, uint64_t most) {
    return core::fail(core::error_kind::bad_input, "wanted at most " + std::to_string(most) + " ranks, one for each " +
                                                       what + ", got " + std::to_string(split.degree));
  };
  if (split.degree > local.heads) return refuse("attention head of a rank", local.heads);
  if (split.degree > columns) return refuse("token of a sample", columns);
  return {};
}

}  // namespace troupe::models
