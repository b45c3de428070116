// Collectives by operation and message size, as DeepSpeed's comms_logger sums them up; from the spans of the steps, so
// that nothing has to be synchronised to be timed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// One operation at one message size. Times are from when the last member had posted it to its end.
struct communication_row {
  std::string op;  ///< DeepSpeed's name: all_gather_into_tensor, reduce_scatter_tensor, all_reduce, all_to_all_single; or send_receive
  std::string purpose;         ///< gather, reduce, vote, publish, send: the plan's word
  uint64_t message_bytes = 0;  ///< of one rank
  uint32_t ranks = 1;
  uint64_t count = 0;
  double latency_ms = 0;  ///< of all together

  [[nodiscard]] double average_ms() const { return count == 0 ? 0 : latency_ms / double(count); }
};

/// Gbit/s of one call that takes `ms`; 0 where the time is 0. Source: the factors of nccl-tests' PERFORMANCE.md as
/// DeepSpeed applies them. With S bytes put in by each of n ranks, an all-gather or reduce-scatter moves S*n (the bus
/// (n-1)/n of it), an all-reduce counts 2S (the bus 2S(n-1)/n), a send S.
struct bandwidth {
  double algorithm_gbps = 0, bus_gbps = 0;
};
/// Algorithm's and bus's bandwidth of `ms` milliseconds, as NCCL's tests define them.
bandwidth bandwidth_of(const std::string& op, uint64_t message_bytes, uint32_t ranks, double ms);

struct communication_options {    ///< which collectives are logged
  bool all = true;                ///< comms_logger.prof_all
  std::vector<std::string> only;  ///< comms_logger.prof_ops, where `all` is false: names of operations or purposes
  bool purpose = false;           ///< comms_logger.debug: rows say what an operation was for
};

class communication_log {  ///< counts, bytes and times by operation and size
 public:
  explicit communication_log(communication_options options = {}) : options_(std::move(options)) {}

  /// Collectives of one rank for each part of the model (stage_leaders), each once; a send with its receive is one.
  /// Those that the vote switched off moved nothing and are left out.
  /// `each`, where given, gets one line per operation, as comms_logger.verbose prints them.
  void add(std::span<const rank_spans> step, const std::function<void(const std::string&)>& each = {});

  /// By operation and size, and by purpose where the options ask for it.
  [[nodiscard]] std::vector<communication_row> rows() const;
  /// By purpose in any case.
  [[nodiscard]] std::vector<communication_row> rows_by_purpose() const;
  [[nodiscard]] bool shows_purpose() const { return options_.purpose; }

 private:
  void add(const rank_spans& rank, const posted_times& posted, const std::function<void(const std::string&)>& each);

  communication_options options_;
  std::map<std::tuple<std::string, std::string, uint64_t, uint32_t>, communication_row> rows_;
};

/// DeepSpeed's columns; what an operation was for where `purpose` is set.
std::string communication_table(const std::vector<communication_row>& rows, bool purpose);
std::string communication_json(const std::vector<communication_row>& rows);

}  // namespace troupe::telemetry
