// Detects stalls: waits for another lane or rank that makes no progress. A lane that computes, or that waits for a disk
// after a request, is not stalled. Owns the state that a rank shows to the other ranks (`pulse`), the board on which it
// is shown (`pulse_board`), the limits of a wait (`patience`) and the clock that measures it (`silence_clock`). The
// rank actor decides when to check and to whom to report (rank.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/memberships.hpp"
#include "actors/step_context.hpp"

namespace troupe::actors {

/// Returns the ranks that have not arrived at a collective, or have not done their part of it. Callable from any
/// thread; may be empty.
using missing_members = std::function<std::vector<uint32_t>(const collective_id&)>;

/// Activity of a rank. If its lanes have different activities, the one that is last in this list counts for the rank,
/// because it has the longest time limit.
enum class activity : uint8_t {
  waiting,  ///< every lane that has not ended waits for another lane or another rank
  working,  ///< a lane computes, moves its bytes of a collective, or has all that it needs to start
  asking,   ///< a lane waits for a disk or for the loader, after a request to it
};

/// Returns the rank's current activity. Reads the start and end times of instructions while lanes write them; pure
/// otherwise.
activity activity_of(const step_context& context, const missing_members& missing);

/// Returns one sentence on each lane of a stalled run: its current instruction, or its reason to wait. Pure.
std::string explain_stall(const step_context& context, const missing_members& missing);

/// Returns the duration of the longest instruction that the compute and shard lanes executed in the run. None unless
/// the run was a training step that was not skipped: other runs do not execute all kinds of instructions. Call when the
/// run has ended.
std::optional<std::chrono::nanoseconds> longest_work(step_context& context);

/// The pulse of a rank: its progress as other ranks see it. Contains numbers only, so that a message can carry it.
struct pulse {
  uint64_t run = 0, num_ended = 0;  ///< number of the current run, and number of its instructions that have ended
  activity doing = activity::waiting;
  /// Duration of the longest instruction of the previous steps; 0: none was measured.
  std::chrono::nanoseconds longest_work{0};
  /// Returns the rank's activity as seen in run `which`. A rank whose latest run is an earlier one is about to receive
  /// its order and counts as working.
  [[nodiscard]] activity doing_in(uint64_t which) const { return run < which ? activity::working : doing; }
  friend bool operator==(const pulse&, const pulse&) = default;
};

/// Returns the current pulse of the rank whose run is `context`. Reads the times of instructions while lanes write
/// them; pure otherwise.
pulse pulse_of(const step_context& context, const missing_members& missing, std::chrono::nanoseconds longest_work);

/// Collects the pulses of all ranks of a job: stores for each rank a function that returns its pulse, and calls all of
/// them in look(). The function of a rank of this process reads the rank's run; that of a rank of another process may
/// return the last pulse received. Thread-safe.
class pulse_board {
 public:
  explicit pulse_board(uint32_t ranks) : sources_(ranks), sentences_(ranks) {}
  void show(uint32_t rank, std::function<pulse()> source);
  /// Returns the pulses by rank; a rank without a source counts as waiting before the first run.
  [[nodiscard]] std::vector<pulse> look() const;

  /// Sets the function that returns the description of the rank's lanes, in the form of explain_stall(); it returns an
  /// empty text between runs.
  void explain(uint32_t rank, std::function<std::string()> source);
  [[nodiscard]] std::string explained(uint32_t rank) const;
  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(sources_.size()); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::function<pulse()>> sources_;
  std::vector<std::function<std::string()>> sentences_;
};

/// Limits of the time in which no instruction ends on any rank; the run is given up when a limit is exceeded. There is
/// no limit while a rank is `asking`: training waits for a disk that pauses, however long.
struct patience {
  /// Limit while all ranks are `waiting`; the limits for other activities are not shorter.
  std::chrono::nanoseconds stall_after{std::chrono::seconds{30}};
  /// Smallest limits while a rank is `working`: `measured_min` once a training step has measured the times of
  /// instructions, `predicted_min` before.
  std::chrono::nanoseconds measured_min{std::chrono::seconds{60}}, predicted_min{std::chrono::seconds{300}};
  /// Duration of the longest instruction as the cost model predicts it; a long one raises the limit for `working`.
  std::chrono::nanoseconds longest_predicted{0};
};
/// While a rank is `working` (activity), the limit is at least this number times the duration of the longest
/// instruction.
inline constexpr int64_t work_factor = 100;

/// Returns the time without progress after which a run is given up while the busiest rank has activity `doing`; none:
/// no limit. `longest_work`: longest instruction of the previous steps on any rank; 0: none was measured. Pure.
std::optional<std::chrono::nanoseconds> limit_of(const patience& p, activity doing,
                                                 std::chrono::nanoseconds longest_work);

/// Number of regular checks for a stall during `patience::stall_after`.
inline constexpr int looks_per_stall = 4;

/// Measures how long the pulses of all ranks have stayed unchanged, from regular looks at them.
class silence_clock {
 public:
  enum class finding : uint8_t {
    fine,
    quiet,    ///< returned once: nothing has ended for `stall_after`, but there is no limit; a warning may be due
    stalled,  ///< no progress for longer than the limit: the run must be given up
  };
  void begin(int64_t now_ns);
  /// Evaluates the pulses `ranks`, read at `now_ns` by a check that was due at `due_ns`. If the check comes much later,
  /// this process did not run meanwhile (it was stopped, or its machine was): the measurement then begins anew, because
  /// the other processes may not have run either.
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
