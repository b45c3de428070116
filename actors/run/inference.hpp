// Computes with the current weights without training: evaluates, computes the loss of the next step's batch, and
// generates text. Each run of the evaluation plan computes as many micro-batches as that plan has. Owns that each
// window of the validation text counts once, whatever the size of micro-batches, the number of ranks and the number of
// micro-batches per run are.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/run/reports.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// Evaluates the model on the validation part of the data; session::evaluate describes requests and errors.
core::result<evaluation_report> evaluate(training_run& run, const evaluation_request& request);

/// Returns the loss of the next step's first micro-batch; see session::next_loss.
core::result<double> next_loss(training_run& run);

/// Generates text; session::generate describes arguments and errors.
core::result<std::vector<int64_t>> generate(training_run& run, std::vector<int64_t> text, uint64_t tokens,
                                            double temperature, const std::vector<int64_t>& ends = {});

}  // namespace troupe::actors
