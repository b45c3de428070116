// Where the members of a communicator live: on which machine, and in which process. Plain values; neighbours in rank
// order share a machine, so that a machine's contributions to a sum follow each other.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"

namespace troupe::fabric {

/// One member's. Machines and places are numbered by whoever hands them out, alike in all processes.
struct home {
  uint32_t machine = 0;
  uint32_t place = 0;  ///< the process
  friend bool operator==(const home&, const home&) = default;
};

/// Members and machines of one communicator; its machines are counted from 0 in the order of their members.
class homes {
 public:
  /// [member]; at least one, else bad_input. Errors: mismatch, where members of a machine are no neighbours, or a
  /// process is on two.
  static core::result<homes> make(const std::vector<home>& of_members);

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(machine_.size()); }
  [[nodiscard]] uint32_t machines() const { return static_cast<uint32_t>(first_.size()) - 1; }
  [[nodiscard]] uint32_t machine_of(uint32_t member) const { return machine_[member]; }
  [[nodiscard]] uint32_t place_of(uint32_t member) const { return place_[member]; }
  /// Members [first(k), first(k) + count(k)) live on machine k.
  [[nodiscard]] uint32_t first(uint32_t machine) const { return first_[machine]; }
  [[nodiscard]] uint32_t count(uint32_t machine) const { return first_[machine + 1] - first_[machine]; }
  [[nodiscard]] bool are_neighbours(uint32_t a, uint32_t b) const { return machine_[a] == machine_[b]; }
  /// The process that speaks for machine k: its first member's.
  [[nodiscard]] uint32_t carrier(uint32_t machine) const { return place_[first_[machine]]; }

 private:
  std::vector<uint32_t> machine_, place_;  // by member
  std::vector<uint32_t> first_;            // by machine, and the number of members
};

}  // namespace troupe::fabric
