// Which samples a run leaves out: what its configuration asks for (`data.skip`), what a checkpoint says was decided
// before, and what the run decides itself after a spike of its loss. Owns how steps become samples; the order without
// them is left_out.hpp's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "data/batch.hpp"

namespace troupe::data {

/// Steps `first` to `last`, from 1.
struct step_span {
  uint64_t first = 0, last = 0;
  bool operator==(const step_span&) const = default;
};

/// The samples that these steps take by `shape`, of which the first is behind shape.first_step.
core::left_out_steps taken_by(const batch_shape& shape, step_span steps);

/// What a run leaves out that stands after shape.first_step steps, where sample shape.first_sample comes next;
/// shape.skipped is not read. Each of `asked` that `recorded` has too (in the same order) has the samples that are
/// recorded; any other one has those that its steps would take without the ones before it in the result, which is in
/// the order of decisions. What was recorded and is asked for no more is dropped where none of its samples lies before
/// the next one; what the run decided itself stays. Refused (mismatch): steps that are done already, and dropping what
/// was left out before.
core::result<std::vector<core::left_out_steps>> decide_left_out(std::span<const step_span> asked,
                                                                std::vector<core::left_out_steps> recorded,
                                                                batch_shape shape);

}  // namespace troupe::data
