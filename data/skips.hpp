// Decides which samples a run leaves out: those that its configuration requests (`data.skip`), those that a checkpoint
// recorded, and those that the run itself decides to leave out after a spike of its loss. Owns the conversion of steps
// to samples; leaves the order without them to left_out.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "data/batch.hpp"

namespace troupe::data {

/// Steps `first` to `last`, counted from 1.
struct step_span {
  uint64_t first = 0, last = 0;
  bool operator==(const step_span&) const = default;
};

/// Returns the samples that the steps `steps` would use of the order that `shape` describes, in which the samples of
/// shape.skipped are left out; the first step must be after shape.first_step.
core::left_out_steps taken_by(const batch_shape& shape, step_span steps);

/// Returns the decisions to leave out samples, for a run that has done shape.first_step steps and uses sample
/// shape.first_sample next; shape.skipped is ignored. `asked` are the configuration's decisions, `recorded` the
/// checkpoint's. A decision in both (in the same order) keeps its recorded samples. A decision in `asked` only has the
/// samples that its steps would use if just the decisions before it in the result were applied. A decision in
/// `recorded` only is dropped if none of its samples is before the next sample; decisions that the run itself made
/// stay. Refused (mismatch): steps that are done already, and dropping samples that were left out already.
core::result<std::vector<core::left_out_steps>> decide_left_out(std::span<const step_span> asked,
                                                                std::vector<core::left_out_steps> recorded,
                                                                batch_shape shape);

}  // namespace troupe::data
