#include "models/compress/beside_original.hpp"

#include <ATen/ops/zeros.h>

#include <utility>

namespace troupe::models {

namespace {

/// Returns what a segment adds to the residual path: `out`, the segment's output, minus the hidden states that entered
/// the segment. `of` selects the model: the original one or the current one.
core::result<at::Tensor> added(const unit_walk& walk, uint64_t step, window_range windows, walk_stream of,
                               core::result<at::Tensor> out) {
  TROUPE_ASSIGN(const auto in, walk.input_of(step, windows, of));
  return out ? core::result<at::Tensor>(out->sub(in)) : std::move(out);
}

}  // namespace

core::result<std::vector<input_sums>> watch_inputs(unit_walk& walk, uint64_t step, std::vector<uint32_t> weights) {
  kept_inputs original(weights);
  input_statistics seen({.wants_products = true, .only = std::move(weights), .original = &original});
  TROUPE_TRY(walk.each([&](window_range windows) -> core::result<void> {
    TROUPE_ASSIGN(const auto was, walk.forward(step, windows, walk_stream::original, &original));
    if (step < walk.steps()) TROUPE_TRY(walk.keep(step, windows, walk_stream::original, was));
    const auto now = walk.forward(step, windows, walk_stream::current, &seen);
    seen.next_window();
    return now ? core::result<void>() : fail(now.error());
  }));
  return seen.inputs();
}

core::result<end_sums> watch_end(unit_walk& walk, uint64_t step, uint32_t weight) {
  input_statistics seen({.wants_products = true, .only = {weight}});
  at::Tensor missing;
  TROUPE_TRY(walk.each([&](window_range windows) -> core::result<void> {
    const auto was =
        added(walk, step, windows, walk_stream::original, walk.input_of(step + 1, windows, walk_stream::original));
    const auto now =
        added(walk, step, windows, walk_stream::current, walk.forward(step, windows, walk_stream::current, &seen));
    if (!was || !now) return fail((was ? now : was).error());
    const at::Tensor x = seen.latest().to(at::kFloat), lacks = was->sub(*now).flatten(0, 1);
    seen.next_window();
    if (!missing.defined()) missing = at::zeros({lacks.size(1), x.size(1)}, at::kFloat);
    missing.addmm_(lacks.t(), x);
    return {};
  }));
  return end_sums{seen.inputs(), missing};
}

}  // namespace troupe::models
