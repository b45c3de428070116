// Defines which process and machine has which ranks during a term, the time in which they stay the same. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cluster/messages.hpp"

namespace troupe::actors {

struct term_members {
  uint32_t place = 0;  ///< number of this process in the job
  /// Processes with ranks, in the order of their ranks; the first one leads the run in this term
  std::vector<cluster::seat> seats;
  /// Keepers: processes without ranks that have files of the save in memory from which the term (time with the same
  /// processes) continues.
  std::vector<cluster::seat> keepers;

  term_members() = default;
  /// Makes the members from `all` processes of the term (time with the same processes): those with ranks, and keepers,
  /// which have none.
  term_members(uint32_t own_place, const std::vector<cluster::seat>& all) : place(own_place) {
    for (const auto& s : all) (s.count > 0 ? seats : keepers).push_back(s);
  }
  [[nodiscard]] bool leads() const { return seats.front().place == place; }
  [[nodiscard]] const cluster::seat& seat_of(uint32_t rank) const {
    return *std::ranges::find_if(seats, [&](const auto& s) { return rank - s.first < s.count; });
  }
  [[nodiscard]] uint32_t place_of(uint32_t rank) const { return seat_of(rank).place; }
  [[nodiscard]] bool is_here(uint32_t rank) const { return place_of(rank) == place; }
  [[nodiscard]] uint32_t machine_of(uint32_t rank) const { return seat_of(rank).machine; }
  /// Returns the number of the machine that this process runs on.
  [[nodiscard]] uint32_t machine() const {
    const auto& all = keeps() ? keepers : seats;
    return std::ranges::find(all, place, &cluster::seat::place)->machine;
  }
  /// True if this process is a keeper: it has files and no ranks.
  [[nodiscard]] bool keeps() const { return std::ranges::find(keepers, place, &cluster::seat::place) != keepers.end(); }
  /// True if the processes of the term (time with the same processes) exchange bytes over the network: they have ranks
  /// on several machines, or there are keepers.
  [[nodiscard]] bool needs_wire() const { return machines().size() > 1 || !keepers.empty(); }
  /// True if a rank's process runs on this machine, so that both can share memory.
  [[nodiscard]] bool is_near(uint32_t rank) const { return machine_of(rank) == machine(); }
  /// Returns the number of the process that has the first ranks of a machine; this process acts for the machine.
  [[nodiscard]] uint32_t first_place_of(uint32_t machine) const {
    return std::ranges::find(seats, machine, &cluster::seat::machine)->place;
  }
  /// Returns the number of the process on the next machine to which this process copies the files that it writes.
  [[nodiscard]] uint32_t copies_to() const {
    const auto all = machines();
    const auto at = std::ranges::find(all, machine()) - all.begin();
    return first_place_of(all[(static_cast<size_t>(at) + 1) % all.size()]);
  }
  /// Returns the numbers of the machines that have ranks, in the order of their first ranks.
  [[nodiscard]] std::vector<uint32_t> machines() const {
    std::vector<uint32_t> out;
    for (const auto& s : seats)
      if (std::ranges::find(out, s.machine) == out.end()) out.push_back(s.machine);
    return out;
  }
  /// Returns for each rank of the term (time with the same processes) whether it is in this process.
  [[nodiscard]] std::vector<bool> here() const {
    std::vector<bool> out;
    for (const auto& s : seats) out.insert(out.end(), s.count, s.place == place);
    return out;
  }
};

}  // namespace troupe::actors
