// Owns the graph of a step: the starts, beginnings of work and ends of its intervals as events, and the events for
// which each of them waited. Computes the critical path, and the length of the step if some work took another time.
// Knows no formats and no causes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"
#include "telemetry/analysis/traced_step.hpp"

namespace troupe::telemetry {

/// A piece of the critical path. The pieces of a path follow one another without gaps from the start of the step to
/// its end.
struct path_piece {
  uint32_t span = 0;  ///< index in traced_step::spans
  bool idle = false;  ///< true: time before the start of the span in which nothing held the start back
  int64_t start_ns = 0, end_ns = 0;
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }
};

/// The graph of one step. The measured times replay to exactly the measured step.
class step_graph {
 public:
  /// Times of the spans [span] that a replay may change, in nanoseconds.
  struct times {
    std::vector<int64_t> gap;   ///< time before the start in which nothing held the start back
    std::vector<int64_t> work;  ///< time of the work itself, without waiting for others
  };

  /// Builds the graph of `step`, which must outlive it. Errors: an index that is none, an interval that ends before it
  /// starts, intervals that wait for each other.
  static core::result<step_graph> of(const traced_step& step);

  [[nodiscard]] const times& measured() const { return measured_; }

  /// Returns the nanoseconds of the step if its spans took the times `t`, which has an entry for each span.
  [[nodiscard]] int64_t replayed(const times& t) const;

  /// Returns the critical path, from the start of the step to its end.
  [[nodiscard]] std::vector<path_piece> critical_path() const;

  /// Returns the nanoseconds, on the clock of the trace, at which the work of a span began: for a collective, when its
  /// last member had posted it and the lanes of its members were free; for others the start, or in a lane that starts
  /// ahead the end of the work before it.
  [[nodiscard]] int64_t began_ns(uint32_t span) const;

  /// Returns the members of collective `k`, as indices of spans.
  [[nodiscard]] const std::vector<uint32_t>& members(uint32_t k) const { return members_[k]; }
  [[nodiscard]] const step_bounds& bounds() const { return bounds_; }
  [[nodiscard]] const traced_step& step() const { return *step_; }

 private:
  enum class part : uint8_t { start, begin, end };

  struct cause {
    uint32_t event = 0;
    int64_t shift_ns = 0;  // at most 0: the cause was measured so much after the event that waits for it
  };
  // Events are numbered: three for each span (its parts), then one for each collective.
  [[nodiscard]] static uint32_t event_of(uint32_t span, part p) { return 3 * span + static_cast<uint32_t>(p); }
  [[nodiscard]] uint32_t event_of_collective(uint32_t k) const {
    return static_cast<uint32_t>(3 * step_->spans.size()) + k;
  }
  [[nodiscard]] int64_t lag_ns(uint32_t event, const times& t) const;
  void add_causes();
  void measure();
  [[nodiscard]] core::result<void> sort();

  const traced_step* step_ = nullptr;
  step_bounds bounds_;
  std::vector<std::vector<uint32_t>> members_;  // [collective]
  std::vector<std::vector<cause>> causes_;      // [event]
  std::vector<int64_t> at_ns_;                  // [event]: measured, from the start of the step
  std::vector<uint32_t> order_;                 // events, each after its causes
  times measured_;
};

}  // namespace troupe::telemetry
