// What silence is: a wait for somebody else who shows no progress. A lane that computes, or waits for a disk that it
// has asked, is at work. Owns what a rank shows of itself to the others (`pulse`), where they see it (`pulse_board`),
// how long a run waits for what (`patience`) and the clock of whoever looks around (`silence_clock`). When somebody
// looks and whom he tells is the rank's (rank.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/step_context.hpp"

namespace troupe::actors {

/// Who has not arrived at a collective, or has not done its share of it. Callable from any thread; may be empty.
using missing_members = std::function<std::vector<uint32_t>(uint64_t sequence)>;

/// What a rank does, by that lane of it which may be waited for longest.
enum class activity : uint8_t {
  waiting,  ///< every lane that has not ended waits for another lane or another rank
  working,  ///< a lane computes, moves its share of a collective, or has all that it needs to start
  asking,   ///< a lane waits for a disk or for the loader, which it has asked
};

/// Pure but for the spans, which lanes write meanwhile: what the rank does.
activity activity_of(const step_context& context, const missing_members& missing);

/// Pure: what each lane of a quiet run is in or waits for, in one sentence.
std::string explain_stall(const step_context& context, const missing_members& missing);

/// The longest instruction of the compute and shard lanes. None in a run that measures not all kinds of them: in any
/// other than a training step, or where the update was skipped. Call when the run has ended.
std::optional<std::chrono::nanoseconds> longest_work(step_context& context);

/// What a rank shows of itself. Numbers only, so that a message can carry it.
struct pulse {
  uint64_t run = 0, num_ended = 0;  ///< instructions of that run
  activity doing = activity::waiting;
  std::chrono::nanoseconds longest_work{0};  ///< instruction of the steps before; 0: none was measured
  friend bool operator==(const pulse&, const pulse&) = default;
};

/// Pure but for the spans: what a rank shows at this moment.
pulse pulse_of(const step_context& context, const missing_members& missing, std::chrono::nanoseconds longest_work);

/// Where the ranks of a job see each other's pulse: a source for each, asked whenever somebody looks. Within a process
/// sources look at contexts; those of other processes' ranks can keep what the last message said. Callable from any
/// thread.
class pulse_board {
 public:
  explicit pulse_board(uint32_t ranks) : sources_(ranks) {}
  void show(uint32_t rank, std::function<pulse()> source);
  /// By rank; of one that has shown nothing yet, the pulse of somebody who waits before the first run.
  [[nodiscard]] std::vector<pulse> look() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::function<pulse()>> sources_;
};

/// How long nothing may end, on any rank, before a run is given up. For `asking` there is no limit: a disk that
/// pauses, however long, makes training wait.
struct patience {
  std::chrono::nanoseconds stall_after{std::chrono::seconds{30}};  ///< for `waiting`; the others' limits are no shorter
  /// For `working`, the least of a limit that follows from what a step measured, and from what was only predicted.
  std::chrono::nanoseconds measured_min{std::chrono::seconds{60}}, predicted_min{std::chrono::seconds{300}};
  std::chrono::nanoseconds longest_predicted{0};  ///< instruction; makes a limit longer, never shorter
};
/// The limit for `working` is so many times the longest instruction.
inline constexpr int64_t work_factor = 100;

/// Pure: none where no clock ends it. `longest_work`: of the steps before, on any rank; 0: none was measured.
std::optional<std::chrono::nanoseconds> limit_of(const patience& p, activity doing,
                                                 std::chrono::nanoseconds longest_work);

/// Looks in the time of `patience::stall_after`.
inline constexpr int looks_per_stall = 4;

/// Since when nothing has changed, as far as somebody can tell who looks now and then.
class silence_clock {
 public:
  enum class finding : uint8_t {
    fine,
    quiet,    ///< found once: nothing has ended for `stall_after`, and no clock ends that; the host may want to know
    stalled,  ///< the run is to be given up
  };
  void begin(int64_t now_ns);
  /// A look at `now_ns`, asked for at `due_ns`. One that comes much later means that the looker himself did not run
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
