// Builds the tables of a job's model, whole and as one rank computes it: frozen, reduced, taught and split as the
// configuration requests. No plans yet.
#pragma once

#include "job/blueprint.hpp"

namespace troupe::job {

/// Fills in the model's part of `b`, whose configuration must be set: spec, sequence, teaching, tensor, table. `own`:
/// tables of a host's own model. `with_copies_of_tied`: a weight that several units use has a row for each use. Errors:
/// refusals of the model or its split, with the key, and sizes that no machine could plan.
core::result<void> make_model_tables(blueprint& b, const host_tables& own, bool with_copies_of_tied);

}  // namespace troupe::job
