// Owns the form in which a step of a trace is analysed, whatever program wrote the trace: intervals of work in lanes of
// ranks, with the order in which they had to happen. Leaves the reading of files to read_traces.hpp and the arithmetic
// to step_graph.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::telemetry {

/// The sort of work of an interval; it follows from the lane of a Troupe trace, or from the category and the name of an
/// event of another program.
enum class work_sort : uint8_t {
  loading,        ///< waits for the tokens of a micro-batch
  compute,        ///< forward, backward and recomputation; any kernel that is none of the others
  communication,  ///< collectives, and transfers between two ranks
  update,         ///< norms and the optimizer
  saving,         ///< copies and writes of a checkpoint
  disk,           ///< reads and writes of swap files
  host,           ///< the program that launches kernels; copies between host and device
};
inline constexpr size_t num_work_sorts = 7;

/// Returns the name of a sort of work as tools print it.
std::string_view name_of(work_sort s);

inline constexpr uint32_t no_index = 0xFFFFFFFF;

/// One interval of work. Times are nanoseconds on the clock of the trace.
struct traced_span {
  uint32_t rank = 0;  ///< index in traced_step::ranks
  uint32_t lane = 0;  ///< index in traced_step::lanes
  uint32_t kind = 0;  ///< index in traced_step::kinds
  uint32_t name = 0;  ///< index in traced_step::names
  work_sort sort = work_sort::compute;
  bool ends_late = false;          ///< true if the step does not wait for the end, as for bytes of a checkpoint
  uint32_t collective = no_index;  ///< number of the collective, equal on all its members; no_index: none
  uint32_t communicator = no_index;
  uint32_t stage = no_index;  ///< stage of a pipeline
  uint64_t bytes = 0;
  int64_t start_ns = 0, end_ns = 0;   ///< a collective starts when its rank posts it
  std::vector<uint32_t> after;        ///< indices of spans that must have ended before this one starts
  std::vector<uint32_t> after_start;  ///< indices of spans that must have started before this one starts
  /// Indices of spans that must have ended before this one ends: those for which a synchronising call waits.
  std::vector<uint32_t> awaits;
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }
};

struct traced_lane {
  std::string name;
  uint32_t rank = 0;  ///< index in traced_step::ranks
  /// True if the lane starts intervals before their predecessors have ended; their work itself follows one another.
  bool starts_ahead = false;
};

/// One step over all its ranks.
struct traced_step {
  uint64_t number = 0;          ///< number of the step as the trace counts it
  std::vector<uint32_t> ranks;  ///< numbers of the ranks, ascending
  std::vector<traced_lane> lanes;
  std::vector<std::string> kinds, names;
  std::vector<traced_span> spans;
  uint32_t collectives = 0;  ///< number of collectives
};

/// Returns the nanoseconds at which the first interval of the step starts and at which the last one that the step waits
/// for ends. Requires a span.
struct step_bounds {
  int64_t start_ns = 0, end_ns = 0;
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }
};
step_bounds bounds_of(const traced_step& s);

}  // namespace troupe::telemetry
