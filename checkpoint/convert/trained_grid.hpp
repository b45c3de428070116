// Stores weights that lie on a grid because they were trained so as the integers that they are: codes and scales of a
// format that has such a grid, instead of the nearest values of another grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/convert/stored_form.hpp"
#include "checkpoint/convert/weight_store.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// The values of a matrix (out, in): in runs of `group_size` neighbours, each value a whole number times the run's
/// scale.
struct trained_grid {
  uint64_t group_size = 0;
  std::vector<float> scales;  ///< scale of each run; 0: its values lie on no grid
  bool transposed = false;    ///< the source stores it as (in, out)
};

/// Adds the tensor in the storage of `form` to `store`, with the errors of scales that the format rounds. Returns false
/// and adds nothing if the format has no such grid, its groups do not divide the runs, or a run has no grid or needs
/// wider codes.
core::result<bool> put_trained(weight_store& store, const tensor_source& source, const std::string& tensor,
                               const trained_grid& grid, const stored_form& form);

}  // namespace troupe::checkpoint
