// Prices the cuts of a job (hardware/cuts.hpp) and chooses among them. Owns how a cut becomes keys of the job.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
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

/// Returns the overrides of the job `of` with which it is cut so. Its number of ranks is among them only if the job
/// states one, and the stages of a rank without a pipeline only if it states several.
std::vector<std::string> overrides_of(const hardware::cut& what, const config::job_config& of);

/// Keys that a user has fixed among those that a search chooses.
struct fixed_keys {
  std::vector<std::string> keys;
  [[nodiscard]] bool has(std::string_view key) const;
  /// True if the cut has the job's value of each fixed key.
  [[nodiscard]] bool allow(const hardware::cut& what, const config::job_config& of) const;
};

/// Returns the keys of the assignments `KEY=VALUE` that a search would choose otherwise. Refused: a whole section that
/// has such keys, a schedule that no cut has, and the number of ranks, which decides which cuts there are.
core::result<fixed_keys> fixed_by(const std::vector<std::string>& set, const config::job_config& of);

/// Returns the job with the keys of overrides_of(), as far as the cost model reads them.
config::job_config with_cut(config::job_config job, const hardware::cut& what);

/// Largest degree of context parallelism that a search tries.
inline constexpr uint64_t most_context_ranks = 16;

/// Returns the space of a job with `ranks` ranks and its own global batch. Context degrees are powers of two that
/// divide the `sequence` tokens of a sample into two parts for each rank; a stack whose attention is not fused has one
/// alone.
hardware::cut_space space_of(const config::job_config& job, const models::model_spec& spec, uint64_t sequence,
                             uint64_t ranks, const hardware::stack& by);

/// Prices all cuts that the fixed keys allow. Refused: a stack without constants of memory, and a job all of whose cuts
/// are refused, with the most frequent reason.
core::result<cut_search> search_cuts(const config::job_config& job, const models::model_spec& spec, uint64_t sequence,
                                     uint64_t ranks, double memory_limit_bytes, const hardware::stack& by,
                                     const fixed_keys& fixed = {});

}  // namespace troupe::apps
