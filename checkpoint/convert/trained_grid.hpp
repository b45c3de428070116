// Stores weights that training has rounded to a grid: their integers become the codes of a format that has such a
// grid, instead of being rounded once more to another grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/convert/stored_form.hpp"
#include "checkpoint/convert/weight_store.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// The grid of a matrix (out, in): in each run of `group_size` elements, which are neighbours in row-major order, every
/// value is a whole number times the scale of the run.
struct trained_grid {
  uint64_t group_size = 0;
  std::vector<float> scales;  ///< scale of each run; 0: the run's values are on no grid
  bool transposed = false;    ///< true: the source stores the matrix as (in, out)
};

/// Adds the tensor in the form `form` to `store`, and records the errors that arise because the format rounds the
/// scales. Returns false and adds nothing if the format has no such grid, its groups do not divide the runs, or a run
/// has no grid or needs wider codes.
core::result<bool> put_trained(weight_store& store, const formats::tensor_source& source, const std::string& tensor,
                               const trained_grid& grid, const stored_form& form);

}  // namespace troupe::checkpoint
