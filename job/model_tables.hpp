// Builds the tables of a job's model, for the whole model and as one rank computes it: with frozen parameters, copied
// layers, a teacher and splits over ranks, as the configuration requests. Makes no plans.
#pragma once

#include "job/blueprint.hpp"

namespace troupe::job {

/// Sets those members of `b` that describe the model: spec, sequence, teaching, tensor, table; b.config must be set.
/// `own`: tables of a host's own model. `with_copies_of_tied`: a weight that several units use is listed once for each
/// use. Errors: refusals of the model or its split, with the key, and sizes that no machine could plan.
core::result<void> make_model_tables(blueprint& b, const host_tables& own, bool with_copies_of_tied);

}  // namespace troupe::job
