// Decides for the supervisor of a job of several processes: which processes there are, which term runs with which of
// them, and what follows a loss. Owns every decision and nothing else: events go in, actions come out. launch.hpp
// executes the actions with real processes, simulations without processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/clock_offset.hpp"
#include "cluster/kept_saves.hpp"
#include "cluster/loss_record.hpp"
#include "cluster/machine_watch.hpp"
#include "cluster/messages.hpp"
#include "cluster/seating.hpp"
#include "cluster/supervised_job.hpp"

namespace troupe::cluster {

struct send_to {  ///< action: sends a message to a process
  uint32_t place = 0;
  parcel what;
};
struct start_process {  ///< action: starts the process with number `place`
  uint32_t place = 0;
};
struct kill_process {  ///< action: kills and reaps the process with number `place`
  uint32_t place = 0;
};
struct say {  ///< action: prints a line to the console's log
  std::string line;
};
struct finish {  ///< action: ends the supervision because the job is over; all processes have received the end
  int32_t code = 0;
  std::string why{};  ///< reason why the job ended; empty if it ended well or the leading process reported it
};
struct send_to_agent {  ///< action: sends a message to the agent of another machine
  uint32_t machine = 0;
  message what;
};
struct drop_agent {  ///< action: closes the link of an agent
  uint32_t machine = 0;
};
/// action: tells an agent that its machine is left out and that it must end with this code; the job continues
struct leave_out_agent {
  uint32_t machine = 0;
  int32_t code = 0;
  std::string why;
};
using action =
    std::variant<send_to, start_process, kill_process, say, finish, send_to_agent, drop_agent, leave_out_agent>;

/// State of a process, as its supervisor sees it.
enum class standing : uint8_t {
  absent,    ///< the process was lost, or never started, and is not started again yet
  starting,  ///< the process was started and has not sent hello
  idle,      ///< the process runs and takes no part in a term
  working,   ///< the process takes part in the term: it has ranks, or files of a save that other processes read
  left,      ///< the process has announced that it ends
};
/// Returns the name of a state, as status displays show it.
std::string_view name_of(standing s);

/// Returns the exit code of a process that ends before it has run, because of `why`.
int32_t code_of(core::error_kind why);

/// Makes the decisions of the supervisor of one job: receives events, and returns actions for the caller to execute.
/// Used by one thread.
class supervision {
 public:
  explicit supervision(supervised_job job);
  supervision(const supervision&) = delete;
  supervision& operator=(const supervision&) = delete;

  // Functions that handle events. `now_ns`: a steady clock.
  void begin(int64_t now_ns);
  void hear(uint32_t place, parcel p, int64_t now_ns);
  /// Handles the end of a process or of its link. `how` completes a sentence: "was killed by signal 9".
  void closed(uint32_t place, const std::string& how, int64_t now_ns);
  void tick(int64_t now_ns);
  /// Handles the arrival of the agent of another machine, which runs no process yet.
  void joined(uint32_t machine, int64_t now_ns);
  /// Called for every message from the agent of `machine`.
  void note_agent(uint32_t machine, int64_t now_ns);
  /// Handles the loss of the agent of `machine`: all its processes are lost. `how` completes a sentence: "was lost:
  /// ...".
  void parted(uint32_t machine, const std::string& how, int64_t now_ns);
  /// Handles the end of the agent of a replaced `machine`, which was told to end and will not reconnect: all its
  /// processes are lost. `how` completes a sentence: "was let go: ...".
  void let_go(uint32_t machine, const std::string& how, int64_t now_ns);

  /// Returns the actions since the last call, in order.
  std::vector<action> take();
  /// Returns the latest time at which `tick` must be called.
  [[nodiscard]] int64_t due_ns() const;

  /// Stops a job whose first term has not begun; the job ends with `code`. Returns false if a term has begun: then the
  /// leading process stops the job.
  bool stops_before_it_began(int32_t code);

  // Functions that return the state of the job, for status displays and for launch.hpp.
  [[nodiscard]] uint64_t term() const { return term_.number; }
  [[nodiscard]] const std::vector<seat>& seats() const { return term_.seats; }
  [[nodiscard]] standing of(uint32_t place) const { return members_[place].is; }
  [[nodiscard]] bool is_over() const { return over_; }
  [[nodiscard]] uint32_t leader() const { return term_.seats.empty() ? 0 : term_.seats.front().place; }
  /// Returns the machines that must join before a term can begin, while no process has ranks: before the first term, or
  /// when too few processes were left to continue. Empty otherwise.
  [[nodiscard]] std::vector<uint32_t> awaited_machines() const;
  /// True if steps may be done now; `has_run` returns whether steps ever could be done.
  [[nodiscard]] bool is_running() const { return term_.is == phase::running; }
  [[nodiscard]] bool has_run() const { return has_run_; }
  /// True if the job has begun and some machines that could lead it are missing, or so quiet that they are about to be
  /// lost.
  [[nodiscard]] bool misses_hosts(int64_t now_ns) const;
  /// True if `machine` was replaced by a spare machine, or is to be replaced at the next boundary between steps.
  [[nodiscard]] bool is_resting(uint32_t machine) const { return machines_.rests(machine); }
  /// Returns a table of the job's processes, with one line for each.
  [[nodiscard]] std::string table() const;
  [[nodiscard]] roster people() const;

 private:
  struct member {
    standing is = standing::absent;
    int64_t last_contact_ns = 0;
    uint32_t losses = 0;
    /// Time at which the process is to be started again; nullopt: it is not waiting for a start
    std::optional<int64_t> start_ns;
    bool is_ready = false;
    bool has_run = false;              ///< true if the process took part in a term whose steps began
    std::optional<core::error> lacks;  ///< reason why the process gets no ranks; none: it may get ranks
    bool follows = false;              ///< true if the process has failed, perhaps because of another process's failure
    uint32_t lost_place = no_place;    ///< number of the process to which this process has lost its link in the term
    uint64_t step = 0;                 ///< number of steps done when the process's ranks began the term
    uint64_t process_id = 0;
    std::string digest;
    clock_offset clock;
  };
  /// Phase of the current term; none: no process has ranks.
  enum class phase : uint8_t { none, beginning, running, ending };
  struct current_term {
    uint64_t number = 0;
    uint32_t data = 0;
    std::vector<seat> seats;
    phase is = phase::none;
  };
  void received(uint32_t place, const hello& m);
  void received(uint32_t place, const ready& m);
  void received(uint32_t place, const leaving& m, int64_t now_ns);
  void received(uint32_t place, const failed& m, int64_t now_ns);
  void received(const replace_wanted& m);
  /// Why a process counts as lost. A clock proves no fault: a machine that is too busy makes healthy processes silent,
  /// so such losses count for cluster.restarts.max and not as losses with no step in between.
  enum class loss_cause : uint8_t { ended, silence };
  void lose(uint32_t place, const std::string& how, int64_t now_ns, loss_cause cause = loss_cause::ended);
  /// Ends the term because of a loss; ends the run if it has had too many losses.
  void end_by_loss(const core::error& why, loss_cause cause);
  /// Remembers how late this process itself calls tick().
  void note_lateness(int64_t now_ns);
  /// Returns a text about the supervisor's own timers, if they were late; else an empty one.
  [[nodiscard]] std::string own_lateness() const;
  void end_followed();
  /// Returns a text about the links that processes of the term have lost, with the machines at their ends; empty if
  /// there are none.
  [[nodiscard]] std::string lost_links() const;
  /// Tells the processes to begin the term's steps, because all of them are ready.
  void start_term();
  void end(bool is_final, const core::error& why);
  void end_job(int32_t code);
  void begin_next();
  void begin_when_gathered();
  /// Called when too few processes, `there`, run for a term. Begins to wait for processes that are being started or
  /// will be started again, and returns true. Returns false if these are too few as well, or if the job does not wait.
  [[nodiscard]] bool gathers_again(uint32_t there);
  /// True if the process with number `place` is being started, or will be started soon.
  [[nodiscard]] bool is_coming(uint32_t place) const;
  void go_on_if_quiet();
  void ask_to_join();
  /// True if the run has done steps, the process took part in none, and other processes can continue the run.
  [[nodiscard]] bool is_newcomer(uint32_t place) const;
  /// Leaves a process out of the run, because it cannot take part.
  void leave_out(uint32_t place, const core::error& why);
  /// Ends the processes that were left out of the run, unless they still have ranks.
  void drop_left_out();
  void drop(uint32_t place);
  void drop_host(uint32_t machine, core::error why);
  void relay_to_others(uint32_t from, const parcel& p);
  void start(uint32_t place);
  void send_kept(const seat& to, const std::string& folder);
  void send(uint32_t place, message m, std::vector<shared_descriptor> with = {});
  [[nodiscard]] bool has_seat(uint32_t place) const;
  [[nodiscard]] bool has_ranks(uint32_t place) const;
  void look_at_machines(int64_t now_ns, bool was_away, bool beats);
  /// Returns the numbers of the processes that run and take no part in a term.
  [[nodiscard]] std::vector<uint32_t> idle_places() const;
  /// Returns which processes take part in the next term, and their ranks. If only replaced machines have some files of
  /// the newest save, no machine counts as replaced any more, so that the term can read these files.
  seating seat_next(uint32_t data);
  void warn_of_save_lost(const std::string& continues_from);
  void say_who_stays(const std::vector<uint32_t>& places);
  [[nodiscard]] bool starts_processes() const { return !over_ && !final_; }
  [[nodiscard]] uint32_t number_there() const;
  [[nodiscard]] core::result<uint32_t> degree_for(uint32_t places) const;
  /// Returns "process 1 on b"; `ranks_of` adds the ranks: "rank 1 (process 1 on b)".
  [[nodiscard]] std::string process_of(uint32_t place) const;
  [[nodiscard]] std::string ranks_of(uint32_t place) const;
  void tell_who_is_there();

  supervised_job job_;
  std::vector<member> members_;
  machine_watch machines_;
  current_term term_;
  uint32_t wanted_;  ///< largest number of data ranks that the next term may have
  uint32_t last_leader_ = 0;
  bool replaces_ = false;  ///< true if the term is to end because a machine is replaced, with as many ranks as before
  std::string cause_;
  loss_record losses_;
  std::optional<core::error> final_;
  /// Time since which the leading process could have reported the run's final error. After cluster.lost_after without
  /// a report the supervisor reports it.
  std::optional<int64_t> final_ns_;
  /// Error of the first process that failed in a way that another process may have caused; the cause has not come yet.
  std::optional<core::error> followed_;
  int64_t followed_ns_ = 0;
  bool over_ = false, has_run_ = false;
  kept_saves kept_;
  std::string told_roster_;  ///< bytes of the last roster that was sent, and the number of the process that received it
  std::string version_, configuration_;
  int64_t began_ns_ = 0;
  bool has_gathered_ = false;            ///< true if the next term waits for no machine any more
  int64_t ticked_ns_ = 0, beat_ns_ = 0;  ///< times of the last tick and of the next beat
  /// Largest lateness of a tick in the last cluster.lost_after, and the time of that tick.
  int64_t late_ns_ = 0, was_late_ns_ = 0;
  std::vector<action> actions_;
};

}  // namespace troupe::cluster
