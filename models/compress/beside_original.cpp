#include "models/compress/beside_original.hpp"

#include <ATen/ops/zeros.h>

#include <utility>

namespace troupe::models {

using core::fail;

core::result<std::vector<input_sums>> watch_inputs(unit_walk& walk, uint64_t step, std::vector<uint32_t> weights) {
  kept_inputs original(weights);
  input_statistics seen({.wants_products = true, .only = std::move(weights), .original = &original});
  auto ok = walk.each([&](window_range windows) -> core::result<void> {
    const auto was = walk.forward(step, windows, walk_stream::original, &original);
    if (!was) return fail(was.error());
    if (step < walk.steps())
      if (auto kept = walk.keep(step, windows, walk_stream::original, *was); !kept) return kept;
    const auto now = walk.forward(step, windows, walk_stream::current, &seen);
    seen.next_window();
    return now ? core::result<void>() : fail(now.error());
  });
  if (!ok) return fail(ok.error());
  return seen.inputs();
}

core::result<end_sums> watch_end(unit_walk& walk, uint64_t step, uint32_t weight) {
  input_statistics seen({.wants_products = true, .only = {weight}});
  at::Tensor missing;
  auto ok = walk.each([&](window_range windows) -> core::result<void> {
    const auto was = walk.input_of(step + 1, windows, walk_stream::original);
    if (!was) return fail(was.error());
    const auto now = walk.forward(step, windows, walk_stream::current, &seen);
    if (!now) return fail(now.error());
    const at::Tensor x = seen.latest().to(at::kFloat), lacks = was->sub(*now).flatten(0, 1);
    seen.next_window();
    if (!missing.defined()) missing = at::zeros({lacks.size(1), x.size(1)}, at::kFloat);
    missing.addmm_(lacks.t(), x);
    return {};
  });
  if (!ok) return fail(ok.error());
  return end_sums{seen.inputs(), missing};
}

}  // namespace troupe::models
