// The supervisor of a job of several processes: who is there, which term runs with whom, what follows a loss. Owns
// every decision and nothing else: events go in, actions come out; launch.hpp does them, simulations play them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/clock_offset.hpp"
#include "cluster/kept_saves.hpp"
#include "cluster/messages.hpp"

namespace troupe::cluster {

/// A place is a process's number, from 0; whoever is started again in it has the same.
struct supervised_job {
  uint32_t processes = 1, spares = 0;  ///< places: those that have ranks at first, those that wait
  uint32_t ranks_each = 1;             ///< of a process
  uint32_t data = 1;                   ///< data ranks at first
  uint32_t replica_ranks = 1;          ///< ranks for each data rank
  /// The most data ranks that a term may have with so many ranks. Errors: why there can be no further term.
  std::function<core::result<uint32_t>(uint32_t ranks)> feasible;
  /// Of a process that is silent, what the system says of it: ", it is stopped, ..."; may be empty.
  std::function<std::string(uint32_t place)> condition{};
  int64_t lost_after_ns = 5'000'000'000;
  bool recovers = true;              ///< after a loss; else the run ends
  bool starts_again = true;          ///< processes that were lost
  /// A run with too few ranks to continue waits for processes that are started again; else it ends. One that has lost
  /// all of them waits in any case.
  bool waits_for_ranks = true;
  uint32_t losses_max = 10;          ///< that a run recovers from
  int64_t backoff_ns = 500'000'000;  ///< before a process is started again; doubles with each loss of its place
  /// [place]: the machine on which its process runs, from 0, which is this one; empty: all run here.
  std::vector<uint32_t> machines{};
  std::vector<std::string> hosts{};  ///< [machine]: names
  /// Of a term whose processes run on several machines: a fresh secret for it.
  std::function<std::string()> secret{};
  /// Of a job that another host has led before: the machines that it lacks, for which the first term does not wait, and
  /// how long it waits for the others; then it begins without them, and they are taken back as any that come later.
  std::vector<uint32_t> lost{};
  int64_t gathers_ns = INT64_MAX;

  [[nodiscard]] uint32_t machine_of(uint32_t place) const { return machines.empty() ? 0 : machines[place]; }
  [[nodiscard]] uint32_t places() const { return processes + spares; }
};
/// Longest wait before a process is started again.
inline constexpr int64_t backoff_max_ns = 30'000'000'000;
/// How often a host may come to a run and not be able to take part; then it is not tried again.
inline constexpr uint32_t times_left_out_max = 3;
/// Losses in a row without a step in between that end a run: whatever kills the processes does it again.
inline constexpr uint32_t fruitless_losses_max = 3;

struct send_to {  ///< a message for a process
  uint32_t place = 0;
  parcel what;
};
struct start_process {  ///< in this place
  uint32_t place = 0;
};
struct kill_process {  ///< and reap it
  uint32_t place = 0;
};
struct say {  ///< a line for the console's log
  std::string line;
};
struct finish {  ///< the job is over; every process has been told
  int32_t code = 0;
  std::string why{};  ///< for agents; empty: it ended well, or who leads has said it
};
struct send_to_agent {  ///< a message for the agent of another machine
  uint32_t machine = 0;
  message what;
};
struct drop_agent {  ///< its link, that is
  uint32_t machine = 0;
};
struct leave_out_agent {  ///< it is told so, and ends with this code; the job goes on
  uint32_t machine = 0;
  int32_t code = 0;
  std::string why;
};
using action =
    std::variant<send_to, start_process, kill_process, say, finish, send_to_agent, drop_agent, leave_out_agent>;

/// How a process is, as its supervisor sees it.
enum class standing : uint8_t {
  absent,    ///< lost, and not started again yet
  starting,  ///< started, has not said hello
  idle,      ///< there, without ranks
  working,   ///< has ranks of the term
  left,      ///< said that it ends
};
/// For people.
std::string_view name_of(standing s);

/// The exit code of whoever ends before it has run, for this reason.
int32_t code_of(core::error_kind why);

class supervision {  ///< of one job; one thread
 public:
  explicit supervision(supervised_job job);

  // Events. `now_ns`: a steady clock.
  void begin(int64_t now_ns);
  void hear(uint32_t place, parcel p, int64_t now_ns);
  /// The link has ended, or the process has: `how` says it, as in "was killed by signal 9".
  void closed(uint32_t place, const std::string& how, int64_t now_ns);
  void tick(int64_t now_ns);
  /// The agent of another machine is there, and runs no process yet.
  void joined(uint32_t machine, int64_t now_ns);
  /// It has said something.
  void heard_agent(uint32_t machine, int64_t now_ns);
  /// It is not there any more: all its processes are lost. `how` as above.
  void parted(uint32_t machine, const std::string& how, int64_t now_ns);
  /// The same, of one whose agent was told to end and will not come back by itself.
  void let_go(uint32_t machine, const std::string& how, int64_t now_ns);

  /// What is to be done since the last call, in order.
  std::vector<action> take();
  /// When `tick` has something to do, at the latest.
  [[nodiscard]] int64_t due_ns() const;

  /// Somebody stops the job; before its first term nobody else can, and it is over with this code. False: there was
  /// one.
  bool stops_before_it_began(int32_t code);

  // For people.
  [[nodiscard]] uint64_t term() const { return term_.number; }
  [[nodiscard]] const std::vector<seat>& seats() const { return term_.seats; }
  [[nodiscard]] standing of(uint32_t place) const { return members_[place].is; }
  [[nodiscard]] bool is_over() const { return over_; }
  [[nodiscard]] uint32_t leader() const { return term_.seats.empty() ? 0 : term_.seats.front().place; }
  /// Those for which the first term waits.
  [[nodiscard]] std::vector<uint32_t> awaited_machines() const;
  /// Whether steps may be done, now or ever.
  [[nodiscard]] bool is_running() const { return term_.is == phase::running; }
  [[nodiscard]] bool has_run() const { return has_run_; }
  /// Whether hosts of a job that has begun, which could lead it, are not there, or so quiet that they are about to be
  /// lost.
  [[nodiscard]] bool misses_hosts(int64_t now_ns) const;
  /// It was replaced by another one.
  [[nodiscard]] bool is_resting(uint32_t machine) const { return machines_[machine].rests; }
  /// One line for each place.
  [[nodiscard]] std::string table() const;
  [[nodiscard]] roster people() const;

 private:
  struct member {
    standing is = standing::absent;
    int64_t heard_ns = 0;
    uint32_t losses = 0;
    std::optional<int64_t> start_ns;  ///< when it is started again
    bool is_ready = false;
    bool has_run = false;              ///< has been in a term that ran
    std::optional<core::error> lacks;  ///< why it is left out
    bool follows = false;              ///< has failed since another process gave up, or says so
    uint32_t lost_place = no_place;    ///< to which it has lost its link, in the term
    uint64_t step = 0;                 ///< steps done that its ranks began the term with
    uint64_t process_id = 0;
    std::string digest;
    clock_offset clock;
  };
  struct machine {
    bool is_there = false;
    int64_t heard_ns = 0;  ///< its agent, but for the first one, which has none
    bool rests = false;    ///< was replaced: it has ranks again only where others are too few
    bool was_let_go = false;
    uint32_t times_left_out = 0;
    core::error lacks{};  ///< why, the last time
  };
  enum class phase : uint8_t { none, beginning, running, ending };  ///< none: nobody has ranks
  struct current_term {
    uint64_t number = 0;
    uint32_t data = 0;
    std::vector<seat> seats;
    phase is = phase::none;
  };
  void heard(uint32_t place, const hello& m);
  void heard(uint32_t place, const ready& m);
  void heard(uint32_t place, const leaving& m, int64_t now_ns);
  void heard(uint32_t place, const failed& m, int64_t now_ns);
  void heard(const replace_wanted& m);
  void lose(uint32_t place, const std::string& how, int64_t now_ns);
  /// A loss that costs the term; the run ends where it has had too many.
  void end_by_loss(const core::error& why);
  void end_followed();
  /// Names the links that processes of the term have lost, with their hosts; empty where none has.
  [[nodiscard]] std::string lost_links() const;
  /// Lets the term's steps begin: all of its processes are ready.
  void start_term();
  [[nodiscard]] run_so_far so_far() const;
  /// Why no more losses are recovered from; nothing while they are.
  [[nodiscard]] std::optional<std::string> beyond_limit() const;
  void end(bool is_final, const core::error& why);
  void end_job(int32_t code);
  void begin_next();
  void begin_when_gathered();
  /// Too few processes are there for a term: waits for those that come back. False: they are not enough either.
  [[nodiscard]] bool gathers_again(uint32_t there);
  /// Whether it is being started, or is about to be.
  [[nodiscard]] bool is_coming(uint32_t place) const;
  void go_on_if_quiet();
  void ask_to_join();
  /// Whether it has not run yet, and the run goes on without it.
  [[nodiscard]] bool is_newcomer(uint32_t place) const;
  /// It cannot take part.
  void leave_out(uint32_t place, const core::error& why);
  /// Those that were left out, once they have no ranks.
  void drop_left_out();
  void drop(uint32_t place);
  void drop_host(uint32_t machine, core::error why);
  void relay_to_others(uint32_t from, const parcel& p);
  void start(uint32_t place);
  [[nodiscard]] std::vector<uint32_t> seated(uint32_t data) const;
  [[nodiscard]] std::vector<uint32_t> machines_of(const std::vector<uint32_t>& places) const;
  void send_kept(const seat& to, const std::string& folder);
  void send(uint32_t place, message m, std::vector<shared_descriptor> with = {});
  [[nodiscard]] bool has_seat(uint32_t place) const;
  [[nodiscard]] bool has_ranks(uint32_t place) const;
  /// Whether the term has ranks on several machines.
  [[nodiscard]] bool crosses_machines() const;
  void look_at_machines(int64_t now_ns, bool was_away, bool beats);
  [[nodiscard]] bool is_silent(uint32_t machine, int64_t now_ns) const;
  [[nodiscard]] bool misses_beats(uint32_t machine, int64_t now_ns) const;
  [[nodiscard]] bool rests(uint32_t place) const { return machines_[job_.machine_of(place)].rests; }
  [[nodiscard]] bool has_only_spares(uint32_t machine) const;
  struct seating {
    std::vector<uint32_t> places;   ///< in the order of ranks
    std::vector<uint32_t> keepers;  ///< without ranks: the others read files of a save there
    [[nodiscard]] std::vector<uint32_t> all() const;
  };
  seating seated_with_saves(uint32_t data);
  /// Places of other hosts that have files of the save which all that are idle have together; nothing where they need
  /// none, or hosts that rest.
  [[nodiscard]] std::vector<uint32_t> keepers_beside(const std::vector<uint32_t>& places) const;
  void warn_of_save_lost(const std::string& continues_from);
  void say_who_stays(const std::vector<uint32_t>& places);
  [[nodiscard]] bool starts_processes() const { return !over_ && !final_; }
  [[nodiscard]] uint32_t number_there() const;
  [[nodiscard]] core::result<uint32_t> degree_for(uint32_t places) const;
  /// "process 1 on b", and with its ranks "rank 1 (process 1 on b)".
  [[nodiscard]] std::string process_of(uint32_t place) const;
  [[nodiscard]] std::string ranks_of(uint32_t place) const;
  void tell_who_is_there();

  supervised_job job_;
  std::vector<member> members_;
  current_term term_;
  uint32_t wanted_;  ///< data ranks at most
  uint32_t last_leader_ = 0;
  bool replaces_ = false;  ///< the term is to end for one with other hosts and as many ranks
  std::string cause_;
  run_so_far before_;
  std::optional<int64_t> without_term_ns_;  ///< since when no term runs, after the first one
  std::optional<core::error> final_;
  std::optional<int64_t> final_ns_;  ///< since when who leads has had time to say so
  /// Of the first process that failed since another gave up: the other's reason has not come yet.
  std::optional<core::error> followed_;
  int64_t followed_ns_ = 0;
  bool over_ = false, has_run_ = false;
  uint32_t losses_ = 0, fruitless_ = 0;
  std::vector<machine> machines_;
  kept_saves kept_;
  std::string told_roster_;  ///< as bytes, with whom it was told
  std::string version_, configuration_;
  int64_t began_ns_ = 0;
  bool has_gathered_ = false;            ///< the next term waits for no machine any more
  int64_t ticked_ns_ = 0, beat_ns_ = 0;  ///< the last tick, the next beat
  std::vector<action> actions_;
};

}  // namespace troupe::cluster
