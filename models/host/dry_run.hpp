// One forward of a host's model before anything is planned: whether the units fit each other, what they cost, and
// whether they draw random numbers.
#pragma once

#include <vector>

#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/host/module_model.hpp"
#include "models/host/random_turn.hpp"

namespace troupe::models {

struct dry_run_result {
  std::vector<bool> draws;  ///< [unit]: draws numbers from torch's generator
};

/// Runs the model, whose parameters hold values, on `first` and fills in flops (where the host gave none) and saved
/// bytes of `table`. Flops are those of matrix products, convolutions, recurrences and fused attention, two for a
/// multiplication with its addition; saved bytes are those that the unit's forward leaves allocated. Buffers keep their
/// values. Refused: a unit that cannot take the output of the one before (both are named, with the shape), a loss that
/// is not one number, an output through which no gradient flows.
core::result<dry_run_result> dry_run(const module_model& model, core::model_table& table, const host_batch& first,
                                     const random_key& key);

/// `t`, or a copy where it has gaps or overlaps itself. What units hand on and back has neither, so that it is the same
/// tensor, strides included, when it has crossed between stages or lain in a window.
at::Tensor without_gaps(const at::Tensor& t);

/// The exception's message in one line.
std::string line_of(const std::exception& e);

}  // namespace troupe::models
