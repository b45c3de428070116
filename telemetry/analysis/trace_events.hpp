// Owns the reading of a file in Chrome's trace format: one event after the other, with the members that analyses use.
// Holds one event at a time. Leaves what events mean to troupe_trace.hpp and kineto_trace.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::telemetry {

/// One event as the file has it. A member that the event lacks, or has with another type, is empty.
struct trace_event {
  std::string name, category, phase;
  std::string process, thread;  ///< `pid` and `tid`, whether they are numbers or texts
  std::optional<int64_t> at_ns, length_ns;

  std::optional<uint64_t> step, id, bytes, stage;           ///< members of `args` that Troupe writes
  std::optional<std::vector<uint32_t>> after;               ///< ids of instructions
  std::optional<std::pair<uint32_t, uint32_t>> collective;  ///< communicator, and position there

  std::optional<uint64_t> correlation;  ///< equal for a kernel and the call that launched it
  std::optional<std::string> stream;    ///< stream of a device
  std::string collective_name;          ///< "Collective name" of a kernel of NCCL
  std::string group;                    ///< "Process Group Name" of a kernel of NCCL
  std::string given_name;               ///< `args.name`: the name that an event of phase M gives
};

/// Members of a trace beside its events. Complete after the file has been read.
struct trace_head {
  std::optional<uint64_t> rank;    ///< `distributedInfo.rank`
  std::optional<int64_t> base_ns;  ///< `baseTimeNanoseconds`, which times are relative to
  uint64_t events = 0;             ///< number of events
};

/// Reads all events of a file, plain or packed by gzip, and calls `each` for every one. An error of `each` ends the
/// reading and is returned. Errors: the file cannot be read, is damaged or truncated, is no JSON, or has no
/// `traceEvents`; the sentence begins with the path.
core::result<trace_head> read_events(const std::filesystem::path& path,
                                     const std::function<core::result<void>(const trace_event&)>& each);

}  // namespace troupe::telemetry
