// Decides which samples a run leaves out: those that its configuration asks for (`data.skip`), those that a checkpoint
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

/// Returns the samples that `steps` take by `shape`; the first step must be after shape.first_step.
core::left_out_steps taken_by(const batch_shape& shape, step_span steps);

/// Returns the decisions of a run that has done shape.first_step steps and takes sample shape.first_sample next;
/// shape.skipped is not read. A decision of `asked` that `recorded` contains too (in the same order) keeps its recorded
/// samples; any other one has the samples that its steps would take without those of the decisions before it in the
/// result, which is in the order of decisions. A recorded decision that is no longer asked for is dropped if none of
/// its samples is before the next sample; decisions of the run itself stay. Refused (mismatch): steps that are done
/// already, and dropping samples that were left out already.
core::result<std::vector<core::left_out_steps>> decide_left_out(std::span<const step_span> asked,
                                                                std::vector<core::left_out_steps> recorded,
                                                                batch_shape shape);

}  // namespace troupe::data
