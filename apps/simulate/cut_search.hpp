// Prices the cuts of a job (hardware/cuts.hpp) and chooses among them. Owns how a cut becomes keys of the job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/base/configuration.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "hardware/cuts.hpp"
#include "hardware/stack.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {

/// A cut with its predicted step and its peak of memory on the fullest stage.
struct priced_cut {
  hardware::cut what;
  double step_s = 0, memory_bytes = 0;
};

struct cut_search {
  uint64_t enumerated = 0;
  std::map<std::string, uint64_t> refused;  ///< [why]: number of cuts that the cost model cannot express
  std::vector<priced_cut> fitting;          ///< fastest first; of equally fast ones that with less memory
  std::vector<priced_cut> exceeding;        ///< the one that needs least memory first
};

/// Returns the overrides of the job with which it is cut so.
std::vector<std::string> overrides_of(const hardware::cut& what);

/// Returns the job with the keys of overrides_of(), as far as the cost model reads them.
config::job_config with_cut(config::job_config job, const hardware::cut& what);

/// Returns the space of a job with `ranks` ranks and its own global batch.
hardware::cut_space space_of(const config::job_config& job, const models::model_spec& spec, uint64_t ranks);

/// Prices all cuts. Refused: a stack without constants of memory, and a job all of whose cuts are refused, with the
/// most frequent reason.
core::result<cut_search> search_cuts(const config::job_config& job, const models::model_spec& spec, uint64_t sequence,
                                     uint64_t ranks, double memory_limit_bytes, const hardware::stack& by);

/// Returns the cuts that no other one beats in both time and memory, fastest first. `all`: fastest first.
std::vector<priced_cut> frontier_of(const std::vector<priced_cut>& all);

}  // namespace troupe::apps
