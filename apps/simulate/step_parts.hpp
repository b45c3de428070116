// Divides the steps of a simulated run among what their time was spent on, so that the parts sum to the step. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/history.hpp"

namespace troupe::apps {

/// The use of a moment in a rank's step: the first of these that is true then.
enum class step_part : uint8_t {
  compute,        ///< the compute lane works
  update,         ///< the shard lane works: sums of gradients, norms, the optimizer
  communication,  ///< a collective of the rank moves bytes
  disk,           ///< the io or the writer lane works
  bubble,         ///< the rank has posted a transfer of its pipeline, for which its neighbour is not ready
  waiting,        ///< the rank has posted another collective, or has ended its step, and other ranks have not
  control,        ///< none of these: messages between lanes and ranks, tokens from the loader
};
inline constexpr size_t num_step_parts = 7;
inline constexpr std::array<std::string_view, num_step_parts> step_part_names = {
    "compute", "update", "exposed communication", "exposed disk", "pipeline bubble", "waiting for others", "control"};
/// Names of the parts in JSON.
inline constexpr std::array<std::string_view, num_step_parts> step_part_keys = {
    "compute_s", "update_s", "exposed_communication_s", "exposed_disk_s", "bubble_s", "waiting_s", "control_s"};

/// Seconds of each part.
using step_parts = std::array<double, num_step_parts>;

/// Returns the parts of the run's steps on each rank: [rank], means over the steps that ended well; empty if none did.
/// On every rank they sum to the mean time of these steps. `plans`: those of the run, by plan_choice.
std::vector<step_parts> parts_of(const sim::history& h, const std::vector<actors::shared_rank_plans>& plans);

/// Returns the means over the ranks. Requires a rank.
step_parts mean_of(const std::vector<step_parts>& ranks);

}  // namespace troupe::apps
