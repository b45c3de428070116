#include "actors/outputs.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/sequence_columns.hpp"
#include "plan/group_exchange.hpp"

namespace troupe::actors {
namespace {

/// True if each rank of a tensor group has computed only its own columns of the logits.
bool in_parts(const plan::job_layout& l) {
  const auto head = static_cast<uint32_t>(l.table->units.size()) - 1;
  return l.options.mesh.tensor_ranks() > 1 &&
         plan::exchange_of(l, head, l.table->logits_segment(), plan::use::forward).op == core::exchange_op::gather;
}

/// [part]: the indices, along the joined dimension of the whole output, at which the slices of this part are placed. A
/// part is the output of one rank, or the joined output of neighbouring ranks.
using part_rows = std::vector<core::column_set>;

/// Returns the indices of each part along `dimension` for parts that are concatenated in order.
part_rows side_by_side(const std::vector<model_output>& parts, size_t dimension) {
  part_rows out;
  int64_t first = 0;
  for (const auto& part : parts) {
    out.push_back({{{first, part.shape[dimension]}}});
    first += part.shape[dimension];
  }
  return out;
}

/// Joins the outputs `parts` along `dimension`: slice i of a part is placed at the i-th of that part's indices in
/// `rows`.
model_output joined(const std::vector<model_output>& parts, size_t dimension, const part_rows& rows) {
  model_output out{parts.front().shape, {}};
  const auto elements = [](auto first, auto last) {
    return static_cast<size_t>(std::accumulate(first, last, int64_t{1}, std::multiplies<>()));
  };
  const auto at = static_cast<std::ptrdiff_t>(dimension);
  const size_t before = elements(out.shape.begin(), out.shape.begin() + at);
  const size_t behind = elements(out.shape.begin() + at + 1, out.shape.end());
  out.shape[dimension] = 0;
  for (const auto& part : parts) out.shape[dimension] += part.shape[dimension];
  const size_t all = static_cast<size_t>(out.shape[dimension]) * behind;
  out.values.resize(before * all);
  for (size_t p = 0; p < parts.size(); ++p) {
    auto from = parts[p].values.begin();
    for (size_t i = 0; i < before; ++i)
      for (const core::column_run& run : rows[p].runs) {
        const auto count = static_cast<std::ptrdiff_t>(static_cast<size_t>(run.count) * behind);
        std::copy_n(
            from, count,
            out.values.begin() + static_cast<std::ptrdiff_t>(i * all + static_cast<size_t>(run.first) * behind));
        from += count;
      }
  }
  return out;
}

/// The outputs of one rank, or of neighbouring ranks joined, and their position in the whole output.
struct placed_outputs {
  uint32_t samples = 0, sequence = 0, tensor = 0;
  std::vector<model_output> micros;
  [[nodiscard]] auto place() const { return std::tuple(samples, sequence, tensor); }
};

/// Joins neighbouring outputs for which `same` holds, along the dimension that is `from_last` before the last one.
/// `rows` returns the indices of each part along that dimension.
template <class Same, class Rows>
std::vector<placed_outputs> joined_where(std::vector<placed_outputs> all, Same same, size_t from_last, Rows rows) {
  std::vector<placed_outputs> out;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const auto& x) { return !same(*first, x); });
    for (size_t m = 0; m < first->micros.size() && last - first > 1; ++m) {
      std::vector<model_output> parts;
      for (auto x = first; x != last; ++x) parts.push_back(std::move(x->micros[m]));
      const size_t dimension = parts.front().shape.size() - 1 - from_last;
      first->micros[m] = joined(parts, dimension, rows(parts, dimension));
    }
    out.push_back(std::move(*first));
    first = last;
  }
  return out;
}

/// Returns for each rank of a sequence group the columns (positions in a sample) that the rank holds.
part_rows dealt_columns(const std::vector<model_output>& parts, size_t dimension, core::column_order order) {
  int64_t all = 0;
  for (const auto& part : parts) all += part.shape[dimension];
  part_rows out;
  const auto ranks = static_cast<uint32_t>(parts.size());
  for (uint32_t r = 0; r < ranks; ++r) out.push_back(core::columns_of(static_cast<uint64_t>(all), ranks, r, order));
  return out;
}

/// Moves the outputs of the ranks out of the reports, in the order of their places; of ranks with the same tokens only
/// those of the first one, unless `from_all_tensor_ranks`.
std::vector<placed_outputs> take_placed(rank_reports& ranks, bool from_all_tensor_ranks) {
  std::vector<placed_outputs> found;
  for (rank_report& r : ranks) {
    const plan::job_layout& l = *r.spans.plan->layout;
    const uint32_t rank = r.rank, tensor = l.options.mesh.tensor_at(rank);
    auto all = std::exchange(r.outputs, {});
    if (!all.empty() && !all.front().values.empty() && (tensor == 0 || from_all_tensor_ranks))
      found.push_back({l.options.mesh.samples_at(rank), l.options.mesh.sequence_at(rank), tensor, std::move(all)});
  }
  std::ranges::sort(found, {}, &placed_outputs::place);
  return found;
}

/// Joins the outputs of ranks that have parts of the same samples; positions are the dimension that is `from_last`
/// before the last one.
std::vector<data_outputs> whole_samples(std::vector<placed_outputs> found, const rank_reports& ranks,
                                        size_t from_last) {
  if (found.empty()) return {};
  const core::column_order order = ranks.front().spans.plan->options().mesh.degree(core::axis::context) > 1
                                       ? core::column_order::two_ended
                                       : core::column_order::neighbours;
  const auto same_samples = [](const auto& a, const auto& b) { return a.samples == b.samples; };
  found = joined_where(std::move(found), same_samples, from_last,
                       [order](const auto& parts, size_t dimension) { return dealt_columns(parts, dimension, order); });
  std::vector<data_outputs> out;
  for (auto& x : found) out.push_back({x.samples, std::move(x.micros)});
  return out;
}

}  // namespace

std::vector<data_outputs> take_outputs(rank_reports& ranks) {
  if (ranks.empty()) return {};
  const auto same_tokens = [](const auto& a, const auto& b) {
    return a.samples == b.samples && a.sequence == b.sequence;
  };
  auto found = take_placed(ranks, in_parts(*ranks.front().spans.plan->layout));
  return whole_samples(joined_where(std::move(found), same_tokens, 0, side_by_side), ranks, 1);
}

std::vector<data_outputs> take_log_probabilities(rank_reports& ranks) {
  return whole_samples(take_placed(ranks, false), ranks, 0);
}

}  // namespace troupe::actors
