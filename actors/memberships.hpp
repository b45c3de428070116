// Defines a rank's memberships of communicators (groups of ranks that exchange data), and the number that identifies a
// collective in messages. Owns no memory and decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/in_process.hpp"
#include "plan/job_layout.hpp"

namespace troupe::actors {

/// [communicator of the layout]: the rank's membership; null if the rank is not a member.
using memberships = std::vector<std::shared_ptr<fabric::communicator>>;

/// Identifies one collective of a communicator among those of all runs. A `wake` message carries it as one number.
struct collective_id {
  uint32_t communicator = 0;
  uint64_t sequence = 0;  ///< number of the operation among all operations of the communicator; below 2^40

  [[nodiscard]] uint64_t number() const { return uint64_t{communicator} << 40U | sequence; }
  static collective_id of(uint64_t number) {
    return {static_cast<uint32_t>(number >> 40U), number & ((uint64_t{1} << 40U) - 1)};
  }
  bool operator==(const collective_id&) const = default;
};

/// Makes a group that exchanges within this process for each communicator of the layout, in the order of the
/// communicators.
inline std::vector<std::shared_ptr<fabric::in_process_group>> in_process_groups(const plan::job_layout& layout,
                                                                                device::device_id device = {}) {
  std::vector<std::shared_ptr<fabric::in_process_group>> out;
  for (const auto& x : layout.communicators)
    out.push_back(fabric::in_process_group::make(static_cast<uint32_t>(x.members.size()), device, x.members));
  return out;
}

}  // namespace troupe::actors
