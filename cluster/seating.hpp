// Assigns the processes of a job to the next term: which get ranks, in which order, and which have no ranks but provide
// files of a save in memory. Plain functions of what the supervisor knows; leaves the term itself to supervision.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cluster/kept_saves.hpp"
#include "cluster/supervised_job.hpp"

namespace troupe::cluster {

/// The assignment of ranks to the processes of a term.
struct seating {
  std::vector<uint32_t> places;   ///< numbers of the processes with ranks, in the order of their ranks
  std::vector<uint32_t> keepers;  ///< numbers of processes without ranks whose files of a save the other processes read
  [[nodiscard]] std::vector<uint32_t> all() const;
};

/// Facts on which the assignment of ranks to processes depends.
struct seating_facts {
  const supervised_job& job;
  const kept_saves& kept;
  std::vector<uint32_t> idle;  ///< numbers of the processes that run and have no ranks now, ascending
  uint32_t last_leader = 0;    ///< number of the process that led the last term: it leads again, if it runs
  std::function<bool(uint32_t place)> had_ranks;
  std::function<bool(uint32_t machine)> rests;  ///< returns true for machines that were replaced by spare machines
};

/// Returns the assignment of ranks for a term with `data` data ranks. Processes that had ranks come before processes
/// that waited; processes of replaced machines come last; processes of one machine are consecutive. If the processes
/// with ranks lack files of the newest save, processes without ranks, on machines that were not replaced, provide them.
seating seat_places(const seating_facts& facts, uint32_t data);

/// True if the processes of `s` have every file of the newest save that all idle processes together have.
bool has_newest_save(const seating_facts& facts, const seating& s);

/// Returns the machines of the processes with these numbers, without repeats, in the order of their first process.
std::vector<uint32_t> machines_of(const supervised_job& job, const std::vector<uint32_t>& places);

}  // namespace troupe::cluster
