// Defines what is recorded about a term of a simulated job: its ranks, and where and with which states it goes on.
// Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::sim {

/// The states with which a term begins.
enum class resume_source : uint8_t {
  beginning,  ///< the states before the first step
  memory,     ///< a save that the supervisor keeps in memory
  disk,       ///< the newest checkpoint on the disk
};
/// Returns the source as a text that completes "goes on from".
constexpr std::string_view name_of(resume_source from) {
  constexpr std::string_view names[] = {"the beginning", "a save in memory", "a checkpoint on the disk"};
  return names[static_cast<size_t>(from)];
}

/// A term (a period with a fixed set of processes) of a simulated job.
struct term_record {
  uint64_t number = 0;                ///< number of the term, as the supervisor counts
  uint32_t data = 0;                  ///< data degree
  uint32_t ranks = 0;                 ///< number of ranks
  std::vector<uint32_t> processes{};  ///< processes with ranks, by their ranks; the first one leads
  resume_source from = resume_source::beginning;
  uint64_t steps_before = 0;  ///< number of steps that the states with which the term begins have had
  uint64_t steps_after = 0;   ///< number of steps that were done when the term ended
  int64_t began_ns = 0;       ///< virtual time at which its leading process opened it
  std::string cause{};        ///< why the term before ended; empty for the first one
};

/// Defects that tests of the simulation plant on purpose, and that its checks have to find.
enum class planted : uint8_t {
  nothing,
  next_term_without_quiet,  ///< the supervisor does not wait until a process has stopped its ranks
  quiet_with_ranks,         ///< a process reports that its ranks have stopped before they have
  end_is_ignored,           ///< a process continues when the supervisor ends its term
  silence_is_ignored,       ///< a process continues although it receives no messages from its supervisor
};

}  // namespace troupe::sim
