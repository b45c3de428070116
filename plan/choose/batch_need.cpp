#include "plan/choose/batch_need.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::plan {
namespace {

/// Bytes of an instruction with its edges in the plans of a run, a little less than was measured at 2 ranks.
constexpr double bytes_per_instruction = 200;
/// Number of plans that train: with and without a checkpoint.
constexpr double training_plans = 2;

}  // namespace

batch_need need_of(const core::model_table& one_row, const batch_request& request) {
  const double ranks = request.ranks, rows = double(request.rows), columns = double(request.columns);
  double all = 0, most = 0, inputs = 0, segments = 0, tile = 0;
  for (const auto& unit : one_row.units) {
    double saved = 0;
    for (const auto& segment : unit.segments)
      saved += double(request.light && segment.light.flops > 0 ? segment.light.bytes : segment.saved_bytes),
          tile = std::max(tile, double(segment.tile_bytes));
    segments += double(unit.segments.size());
    all += saved;
    most = std::max(most, saved);
    inputs += double(unit.input_bytes);
  }
  batch_need out;
  out.tokens = ranks * (1 + double(request.prefetched)) * rows * (columns + 1) * sizeof(int64_t);
  out.activations = ranks * (rows * (request.recompute ? most + (request.inputs_on_disk ? 0 : inputs) : all) + tile);
  // Every segment has one instruction in forward and one in backward.
  out.plans = ranks * training_plans * double(request.accumulation) * 2 * segments * bytes_per_instruction;
  return out;
}

batch_refusal refusal_of(const core::model_table& one_row, const batch_request& request, uint64_t memory_bytes,
                         const std::string& memory) {
  const batch_need need = need_of(one_row, request);
  if (memory_bytes == 0 || need.total() <= double(memory_bytes)) return {};
  const std::string there = memory + " of " + core::human_bytes(memory_bytes);
  if (need.plans > need.tokens + need.activations)
    return {"gradient_accumulation_steps",
            fmt::format("wanted steps that fit {}, got {} micro-batches a step, with plans of {}", there,
                        request.accumulation, core::human_bytes(need.plans))};
  return {"train_micro_batch_size_per_gpu",
          fmt::format("wanted batches that fit {}, got micro-batches of {} samples of {} tokens on {}{}, which need {} "
                      "for activations and {} for tokens",
                      there, request.rows, request.columns, request.ranks, request.ranks == 1 ? " rank" : " ranks",
                      core::human_bytes(need.activations), core::human_bytes(need.tokens))};
}

}  // namespace troupe::plan
