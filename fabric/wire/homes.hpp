// Owns where the members of a communicator run: on which machine, and in which process. Plain values. Members of a
// machine have consecutive ranks, so that a machine's contributions to a sum are consecutive.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"

namespace troupe::fabric {

/// The machine and the process in which one member of a communicator runs. Machines and processes have the same numbers
/// in all processes.
struct home {
  uint32_t machine = 0;
  uint32_t place = 0;  ///< number, in the job, of the process that the member belongs to
  friend bool operator==(const home&, const home&) = default;
};

/// Homes of all members of one communicator; its machines are numbered from 0 in the order of their members.
class homes {
 public:
  /// Creates the homes from a list that contains the home of each member. Errors: bad_input, for an empty list;
  /// mismatch, if members of a machine are not consecutive, or a process is on two machines.
  static core::result<homes> make(const std::vector<home>& of_members);

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(machine_.size()); }
  [[nodiscard]] uint32_t machines() const { return static_cast<uint32_t>(first_.size()) - 1; }
  [[nodiscard]] uint32_t machine_of(uint32_t member) const { return machine_[member]; }
  [[nodiscard]] uint32_t place_of(uint32_t member) const { return place_[member]; }
  /// Returns the first member of a machine: members [first(k), first(k) + count(k)) run on machine k.
  [[nodiscard]] uint32_t first(uint32_t machine) const { return first_[machine]; }
  [[nodiscard]] uint32_t count(uint32_t machine) const { return first_[machine + 1] - first_[machine]; }
  [[nodiscard]] bool are_neighbours(uint32_t a, uint32_t b) const { return machine_[a] == machine_[b]; }
  /// Returns the process that represents the machine in notes: the process of the machine's first member.
  [[nodiscard]] uint32_t carrier(uint32_t machine) const { return place_[first_[machine]]; }

 private:
  std::vector<uint32_t> machine_, place_;  // [member]: number of its machine; number of its process
  std::vector<uint32_t> first_;            // [machine]: its first member; the last element is the number of members
};

}  // namespace troupe::fabric
