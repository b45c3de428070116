// Detects stalls. A lane is silent if it waits for another lane or rank that shows no progress; a lane that computes,
// or waits for a disk after a request, is working. Owns the state that a rank shows to the other ranks (`pulse`), the
// board that shows it (`pulse_board`), the limits of a wait (`patience`) and the clock that watches them
// (`silence_clock`). The rank decides when to look and to whom to report (rank.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/meetings.hpp"
#include "actors/step_context.hpp"

namespace troupe::actors {

/// Returns the ranks that have not arrived at a collective, or have not done their share of it. Callable from any
/// thread; may be empty.
using missing_members = std::function<std::vector<uint32_t>(const meeting_id&)>;

/// State of a rank: the state of its lane with the longest limit.
enum class activity : uint8_t {
  waiting,  ///< every lane that has not ended waits for another lane or another rank
  working,  ///< a lane computes, moves its share of a collective, or has all that it needs to start
  asking,   ///< a lane waits for a disk or for the loader, after a request to it
};

/// Returns the rank's activity. Pure except for the spans, which lanes write meanwhile.
activity activity_of(const step_context& context, const missing_members& missing);

/// Returns one sentence on each lane of a stalled run: its current instruction, or its reason to wait. Pure.
std::string explain_stall(const step_context& context, const missing_members& missing);

/// Returns the duration of the longest instruction of the compute and shard lanes; none for a run that does not measure
/// all kinds of them: any run but a training step whose update was not skipped. Call when the run has ended.
std::optional<std::chrono::nanoseconds> longest_work(step_context& context);

/// The progress of a rank that other ranks see. Contains numbers only, so that a message can carry it.
struct pulse {
  uint64_t run = 0, num_ended = 0;  ///< the current run, and its instructions that have ended
  activity doing = activity::waiting;
  /// Duration of the longest instruction of the previous steps; 0: none was measured.
  std::chrono::nanoseconds longest_work{0};
  /// Returns the rank's activity in run `which`. A rank that has not begun that run is about to receive its order and
  /// counts as working.
  [[nodiscard]] activity doing_in(uint64_t which) const { return run < which ? activity::working : doing; }
  friend bool operator==(const pulse&, const pulse&) = default;
};

/// Returns the current pulse of a rank. Pure except for the spans.
pulse pulse_of(const step_context& context, const missing_members& missing, std::chrono::nanoseconds longest_work);

/// Shows the pulses of all ranks of a job: one source per rank, called at every look. Sources of the same process read
/// contexts; sources of ranks of other processes may return the last message. Callable from any thread.
class pulse_board {
 public:
  explicit pulse_board(uint32_t ranks) : sources_(ranks), sentences_(ranks) {}
  void show(uint32_t rank, std::function<pulse()> source);
  /// Returns the pulses by rank; a rank without a source counts as waiting before the first run.
  [[nodiscard]] std::vector<pulse> look() const;

  /// Sets the source of the sentence on the rank's lanes, in the form of explain_stall(); empty between runs.
  void explain(uint32_t rank, std::function<std::string()> source);
  [[nodiscard]] std::string explained(uint32_t rank) const;
  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(sources_.size()); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::function<pulse()>> sources_;
  std::vector<std::function<std::string()>> sentences_;
};

/// How long no instruction may end on any rank before the run is given up. `asking` has no limit: a disk that pauses,
/// however long, makes training wait.
struct patience {
  /// Longest time without progress for `waiting` ranks; the limits for other states are not shorter.
  std::chrono::nanoseconds stall_after{std::chrono::seconds{30}};
  /// Least limits for `working`: after a step has measured times, and while times are only predicted.
  std::chrono::nanoseconds measured_min{std::chrono::seconds{60}}, predicted_min{std::chrono::seconds{300}};
  /// Predicted duration of the longest instruction; may make a limit longer, never shorter.
  std::chrono::nanoseconds longest_predicted{0};
};
/// Ratio of the limit for `working` to the longest instruction.
inline constexpr int64_t work_factor = 100;

/// Returns the limit of a wait; none if there is no limit. `longest_work`: longest instruction of the previous steps on
/// any rank; 0: none was measured. Pure.
std::optional<std::chrono::nanoseconds> limit_of(const patience& p, activity doing,
                                                 std::chrono::nanoseconds longest_work);

/// Number of regular checks for a stall during `patience::stall_after`.
inline constexpr int looks_per_stall = 4;

/// Measures how long the pulses of all ranks have stayed unchanged, from regular looks at them.
class silence_clock {
 public:
  enum class finding : uint8_t {
    fine,
    quiet,    ///< reported once: nothing has ended for `stall_after`, and there is no limit; the host may be notified
    stalled,  ///< no progress for longer than the limit: the run must be given up
  };
  void begin(int64_t now_ns);
  /// Evaluates a look at `now_ns` that was due at `due_ns`. A look that comes much later means that this process did
  /// not run (stopped, paused, moved to another machine): the clock then restarts, because the other processes may not
  /// have run either.
  finding look(int64_t now_ns, int64_t due_ns, uint64_t run, std::vector<pulse> ranks, const patience& p);
  [[nodiscard]] std::chrono::nanoseconds quiet(int64_t now_ns) const {
    return std::chrono::nanoseconds(now_ns - since_ns_);
  }

 private:
  int64_t since_ns_ = 0;
  std::vector<pulse> seen_;
  bool told_ = false;
};

}  // namespace troupe::actors
