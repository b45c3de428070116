// Silence is a wait for another lane or rank that shows no progress. A lane that computes, or waits for a disk that it
// has asked, is working. Owns the state that a rank shows to the others (`pulse`), where they see it (`pulse_board`),
// the limits of a wait (`patience`) and the clock that watches them (`silence_clock`). The rank decides when to look
// and whom to tell (rank.hpp).
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

/// Which ranks have not arrived at a collective, or have not done their share of it. Callable from any thread; may be
/// empty.
using missing_members = std::function<std::vector<uint32_t>(const meeting_id&)>;

/// A rank's state: that of its lane with the longest limit.
enum class activity : uint8_t {
  waiting,  ///< every lane that has not ended waits for another lane or another rank
  working,  ///< a lane computes, moves its share of a collective, or has all that it needs to start
  asking,   ///< a lane waits for a disk or for the loader, which it has asked
};

/// The rank's activity. Pure but for the spans, which lanes write meanwhile.
activity activity_of(const step_context& context, const missing_members& missing);

/// Pure: what each lane of a quiet run is in or waits for, in one sentence.
std::string explain_stall(const step_context& context, const missing_members& missing);

/// The longest instruction of the compute and shard lanes. None for a run that does not measure all kinds of them: any
/// but a training step whose update was not skipped. Call when the run has ended.
std::optional<std::chrono::nanoseconds> longest_work(step_context& context);

/// A rank's sign of life. Numbers only, so that a message can carry it.
struct pulse {
  uint64_t run = 0, num_ended = 0;  ///< instructions of that run
  activity doing = activity::waiting;
  std::chrono::nanoseconds longest_work{0};  ///< instruction of the steps before; 0: none was measured
  /// In run `which`: a rank that has not begun it is about to get its order.
  [[nodiscard]] activity doing_in(uint64_t which) const { return run < which ? activity::working : doing; }
  friend bool operator==(const pulse&, const pulse&) = default;
};

/// The pulse of a rank at this moment. Pure but for the spans.
pulse pulse_of(const step_context& context, const missing_members& missing, std::chrono::nanoseconds longest_work);

/// Where the ranks of a job see each other's pulse: one source per rank, called at every look. Within a process sources
/// read contexts; for ranks of other processes they can return the last message. Callable from any thread.
class pulse_board {
 public:
  explicit pulse_board(uint32_t ranks) : sources_(ranks), sentences_(ranks) {}
  void show(uint32_t rank, std::function<pulse()> source);
  /// By rank; a rank without a source counts as waiting before the first run.
  [[nodiscard]] std::vector<pulse> look() const;

  /// What the rank's lanes are in and wait for, as explain_stall() says it; empty between runs.
  void explain(uint32_t rank, std::function<std::string()> source);
  [[nodiscard]] std::string explained(uint32_t rank) const;
  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(sources_.size()); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::function<pulse()>> sources_;
  std::vector<std::function<std::string()>> sentences_;
};

/// How long nothing may end, on any rank, before a run is given up. For `asking` there is no limit: a disk that
/// pauses, however long, makes training wait.
struct patience {
  std::chrono::nanoseconds stall_after{std::chrono::seconds{30}};  ///< for `waiting`; the others' limits are no shorter
  /// For `working`: the least limit after a step has measured times, and the least while they are only predicted.
  std::chrono::nanoseconds measured_min{std::chrono::seconds{60}}, predicted_min{std::chrono::seconds{300}};
  std::chrono::nanoseconds longest_predicted{0};  ///< instruction; makes a limit longer, never shorter
};
/// The limit for `working` is this many times the longest instruction.
inline constexpr int64_t work_factor = 100;

/// Pure: none if there is no limit. `longest_work`: of the steps before, on any rank; 0: none was measured.
std::optional<std::chrono::nanoseconds> limit_of(const patience& p, activity doing,
                                                 std::chrono::nanoseconds longest_work);

/// Looks per `patience::stall_after`.
inline constexpr int looks_per_stall = 4;

/// Measures how long nothing has changed, from looks now and then.
class silence_clock {
 public:
  enum class finding : uint8_t {
    fine,
    quiet,    ///< found once: nothing has ended for `stall_after`, and there is no limit; the host may want to know
    stalled,  ///< the run must be given up
  };
  void begin(int64_t now_ns);
  /// A look at `now_ns` that was due at `due_ns`. A look that comes much later means that this process did not run
  /// (stopped, paused, moved to another machine): the clock starts anew, as the others may not have run either.
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
