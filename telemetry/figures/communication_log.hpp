// Sums up collectives by operation and message size, as DeepSpeed's comms_logger does. The times come from the spans of
// the steps, so timing needs no synchronisation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Sums of one operation at one message size. A call's time begins when the last member has posted it and ends with the
/// operation.
struct communication_row {
  /// DeepSpeed's name: all_gather_into_tensor, reduce_scatter_tensor, all_reduce, all_to_all_single; or send_receive
  std::string op;
  std::string purpose;         ///< name of the instruction in the plan: gather, reduce, vote, publish, send
  uint64_t message_bytes = 0;  ///< number of message bytes of one rank
  uint32_t ranks = 1;
  uint64_t count = 0;
  double latency_ms = 0;  ///< sum of the milliseconds of all `count` calls

  [[nodiscard]] double average_ms() const { return count == 0 ? 0 : latency_ms / double(count); }
};

/// Bandwidths of one call in Gbit/s; 0 if its time is 0. Source: the factors of nccl-tests' PERFORMANCE.md as DeepSpeed
/// applies them. With a message of S bytes on each of n ranks, the algorithm bandwidth counts S*n bytes for an
/// all-gather or reduce-scatter, 2*S for an all-reduce, and S for a send or all-to-all. The bus bandwidth is the
/// algorithm bandwidth times (n-1)/n for the first three, and equal to it for a send or all-to-all.
struct bandwidth {
  double algorithm_gbps = 0, bus_gbps = 0;
};
/// Returns the algorithm and bus bandwidths of one call that takes `ms` milliseconds, as nccl-tests define them.
bandwidth bandwidth_of(const std::string& op, uint64_t message_bytes, uint32_t ranks, double ms);

struct communication_options {    ///< selects the collectives that are logged
  bool all = true;                ///< true: all collectives are logged; key: comms_logger.prof_all
  std::vector<std::string> only;  ///< comms_logger.prof_ops, used if `all` is false: names of operations or purposes
  bool purpose = false;           ///< comms_logger.debug: rows also show the purpose of an operation
};

class communication_log {  ///< sums counts, bytes and times of a run's collectives by operation and message size
 public:
  explicit communication_log(communication_options options = {}) : options_(std::move(options)) {}

  /// Adds the collectives of one rank for each part of the model (stage_leaders). Each collective is added once; a send
  /// and its receive count as one. Omits collectives that moved nothing because the step was skipped. Calls `each`, if
  /// given, with one line of text per collective, in the format of DeepSpeed's comms_logger.verbose.
  void add(std::span<const rank_spans> step, const std::function<void(const std::string&)>& each = {});

  /// Returns one row per operation and message size, and per purpose if the options ask for it.
  [[nodiscard]] std::vector<communication_row> rows() const;
  /// Returns one row per operation, message size and purpose, regardless of the options.
  [[nodiscard]] std::vector<communication_row> rows_by_purpose() const;
  [[nodiscard]] bool shows_purpose() const { return options_.purpose; }

 private:
  void add(const rank_spans& rank, const posted_times& posted, const std::function<void(const std::string&)>& each);

  communication_options options_;
  std::map<std::tuple<std::string, std::string, uint64_t, uint32_t>, communication_row> rows_;
};

/// Returns the rows as a table with DeepSpeed's columns; shows the purpose of an operation if `purpose` is set.
std::string communication_table(const std::vector<communication_row>& rows, bool purpose);
std::string communication_json(const std::vector<communication_row>& rows);

}  // namespace troupe::telemetry
