// The tables of a job's model: whole, and what a rank computes with; frozen, reduced, taught and cut as the
// configuration says. No plans yet.
#pragma once

#include "job/blueprint.hpp"

namespace troupe::job {

/// Fills in the model's part of `b`, whose configuration is there: spec, sequence, teaching, tensor, table. `own`: of a
/// host's own model. `with_copies_of_tied`: a weight that several units use has a row for each use. Errors: what the
/// model or its cut refuses, with the key, and sizes that no machine could plan.
core::result<void> make_model_tables(blueprint& b, const host_tables& own, bool with_copies_of_tied);

}  // namespace troupe::job
