// Which ranks of a term live in which process, on which machine. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cluster/messages.hpp"

namespace troupe::actors {

struct term_members {
  uint32_t place = 0;                  ///< this process
  std::vector<cluster::seat> seats;    ///< in the order of ranks; the first leads
  std::vector<cluster::seat> keepers;  ///< without ranks: files of the save that the term continues from lie there

  term_members() = default;
  /// `all` of a term.
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
  /// This process's.
  [[nodiscard]] uint32_t machine() const {
    const auto& all = keeps() ? keepers : seats;
    return std::ranges::find(all, place, &cluster::seat::place)->machine;
  }
  /// This process is a keeper.
  [[nodiscard]] bool keeps() const { return std::ranges::find(keepers, place, &cluster::seat::place) != keepers.end(); }
  /// Whether files or sums cross machines in it.
  [[nodiscard]] bool needs_wire() const { return machines().size() > 1 || !keepers.empty(); }
  /// Whether a rank's process runs on this machine, so that both can have memory in common.
  [[nodiscard]] bool is_near(uint32_t rank) const { return machine_of(rank) == machine(); }
  /// The process of the first ranks of a machine; it speaks for the machine.
  [[nodiscard]] uint32_t first_place_of(uint32_t machine) const {
    return std::ranges::find(seats, machine, &cluster::seat::machine)->place;
  }
  /// The process of the next machine which has copies of what this one writes.
  [[nodiscard]] uint32_t copies_to() const {
    const auto all = machines();
    const auto at = std::ranges::find(all, machine()) - all.begin();
    return first_place_of(all[(static_cast<size_t>(at) + 1) % all.size()]);
  }
  /// In the order of ranks.
  [[nodiscard]] std::vector<uint32_t> machines() const {
    std::vector<uint32_t> out;
    for (const auto& s : seats)
      if (std::ranges::find(out, s.machine) == out.end()) out.push_back(s.machine);
    return out;
  }
  /// [rank]
  [[nodiscard]] std::vector<bool> here() const {
    std::vector<bool> out;
    for (const auto& s : seats) out.insert(out.end(), s.count, s.place == place);
    return out;
  }
};

}  // namespace troupe::actors
