// The swap files of the ranks of a process: one folder, one file per rank, and the thread that waits for completed
// requests to them. Owns their lifetime.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "config/sections/job_config.hpp"
#include "plan/rank_plan.hpp"
#include "storage/queue/event_watch.hpp"
#include "storage/swap/swap_queue.hpp"
#include "storage/swap/swap_space.hpp"

namespace troupe::actors {

struct swap_files {
  std::shared_ptr<storage::swap_space> space;  ///< folder of the swap files; null if no states are swapped
  std::shared_ptr<storage::event_watch> watch;
  std::vector<std::shared_ptr<storage::swap_file>> ranks;  ///< [index in the plans]: swap file of the rank
};

/// Creates a swap file in `folder` for each rank of this process, whose plans are `plans`, after checking the free
/// space. Errors: those of storage::swap_space.
core::result<swap_files> open_swap_files(const config::job_config& config, const std::filesystem::path& folder,
                                         plan::rank_plans plans);

/// Returns the bytes that each kind of state has in the swap files of all ranks whose plans are `plans`.
std::vector<storage::swap_category> swap_categories(plan::rank_plans plans);

/// Returns the options of the queue of requests to a rank's swap file.
storage::swap_queue_options queue_options(const config::job_config& config);

}  // namespace troupe::actors
