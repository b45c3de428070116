// Predicts a job with overrides of its keys on other hardware, and prints nothing: a point of a sweep, or a candidate
// of a search.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "apps/base/configuration.hpp"
#include "apps/simulate/hardware_prediction.hpp"
#include "hardware/stack.hpp"

namespace troupe::apps {

/// A prediction, or what is wrong with the job, one sentence for each thing: a key that the loader refuses, or that the
/// cost model cannot express.
using candidate = tl::expected<hardware_prediction, std::vector<std::string>>;

/// Loads the job as `troupe plan` does and predicts it.
candidate predict_candidate(const common_arguments& job, const hardware::stack& by);

/// Predicts the job with `parallel.data` such that it has `ranks` ranks.
candidate predict_with_ranks(const common_arguments& job, uint64_t ranks, const hardware::stack& by);

/// Returns the configuration of a job whose other degrees decide how many ranks it can have: as it is; or, if its batch
/// fits only other data ranks than its file has, with one data rank; or, if its file states a number of ranks that
/// other degrees exceed, with `ranks` ranks.
config::load_result before_ranks(const common_arguments& job, uint64_t ranks);

/// Returns the overrides with which the job `before` has `ranks` ranks. Refused: degrees that are auto, and what
/// data_degree_for() refuses.
core::result<std::vector<std::string>> overrides_for(const config::loaded& before, uint64_t ranks);

/// Returns the sentences of a refused configuration, without the places in its file.
std::vector<std::string> sentences_of(const std::vector<config::diagnostic>& problems);

}  // namespace troupe::apps
