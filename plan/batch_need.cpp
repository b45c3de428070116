#include "plan/batch_need.hpp"

#include <algorithm>
#include <iterator>

#include "core/text.hpp"

namespace troupe::plan {
namespace {

/// An instruction with its edges in the plans of a run, measured at 2 ranks; a little less than what it takes.
constexpr double bytes_per_instruction = 200;
/// Of those plans that train: with and without a checkpoint.
constexpr double training_plans = 2;

std::string shown(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return core::text_of("%.3g %s", bytes, units[unit]);
}

}  // namespace

batch_need need_of(const core::model_table& one_row, const batch_request& request) {
  const double ranks = request.ranks, rows = double(request.rows), columns = double(request.columns);
  double all = 0, most = 0, inputs = 0, segments = 0;
  for (const auto& unit : one_row.units) {
    double saved = 0;
    for (const auto& segment : unit.segments) saved += double(segment.saved_bytes);
    segments += double(unit.segments.size());
    all += saved;
    most = std::max(most, saved);
    inputs += double(unit.input_bytes);
  }
  batch_need out;
  out.tokens = ranks * (1 + double(request.prefetched)) * rows * (columns + 1) * sizeof(int64_t);
  out.activations = ranks * rows * (request.recompute ? most + (request.inputs_on_disk ? 0 : inputs) : all);
  // Every segment is a forward and a backward.
  out.plans = ranks * training_plans * double(request.accumulation) * 2 * segments * bytes_per_instruction;
  return out;
}

batch_refusal refusal_of(const core::model_table& one_row, const batch_request& request, uint64_t memory_bytes,
                         const std::string& memory) {
  const batch_need need = need_of(one_row, request);
  if (memory_bytes == 0 || need.total() <= double(memory_bytes)) return {};
  const std::string there = memory + " of " + shown(double(memory_bytes));
  if (need.plans > need.tokens + need.activations)
    return {"gradient_accumulation_steps", "wanted steps that fit " + there + ", got " +
                                               std::to_string(request.accumulation) + " micro-batches a step, whose plans need " + shown(need.plans)};
  return {"train_micro_batch_size_per_gpu",
          "wanted batches that fit " + there + ", got micro-batches of " +
              std::to_string(request.rows) + " samples of " + std::to_string(request.columns) + " tokens on " +
              std::to_string(request.ranks) + (request.ranks == 1 ? " rank" : " ranks") + ", which need " +
              shown(need.activations) + " for activations and " + shown(need.tokens) + " for tokens"};
}

}  // namespace troupe::plan
