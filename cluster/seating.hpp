// Assigns the processes of a job to the next term: which get ranks, in which order, and which keep files of a save that
// the others read. Plain functions of what the supervisor knows; leaves the term itself to supervision.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cluster/kept_saves.hpp"
#include "cluster/supervised_job.hpp"

namespace troupe::cluster {

/// The places of a term.
struct seating {
  std::vector<uint32_t> places;   ///< places with ranks, in the order of ranks
  std::vector<uint32_t> keepers;  ///< places without ranks, whose files of a save the others read
  [[nodiscard]] std::vector<uint32_t> all() const;
};

/// Facts on which a seating depends.
struct seating_facts {
  const supervised_job& job;
  const kept_saves& kept;
  std::vector<uint32_t> idle;  ///< places whose processes run and have no ranks now, in ascending order
  uint32_t last_leader = 0;    ///< place that led the last term: it leads again, if it is there
  std::function<bool(uint32_t place)> had_ranks;
  std::function<bool(uint32_t machine)> rests;  ///< true for machines that were replaced
};

/// Returns the seating of a term with `data` data ranks. Places that had ranks come before places that waited; places
/// of replaced machines come last; places of one machine are consecutive. If the places with ranks lack files of the
/// newest save, places without ranks on machines that do not rest provide them.
seating seat_places(const seating_facts& facts, uint32_t data);

/// True if the places of `s` have every file of the newest save that all idle places have together.
bool has_newest_save(const seating_facts& facts, const seating& s);

/// Returns the machines of these places, without repeats, in the order of their first places.
std::vector<uint32_t> machines_of(const supervised_job& job, const std::vector<uint32_t>& places);

}  // namespace troupe::cluster
