// Defines a micro-batch of the host program's own tensors, as the loader sends it to the compute lane.
#pragma once

#include "data/batch.hpp"
#include "models/host/module_model.hpp"

namespace troupe::actors {

/// A micro-batch of the host program's own tensors; the fields for tokens stay empty.
struct tensor_batch : data::batch {
  models::host_batch tensors;
};

}  // namespace troupe::actors
