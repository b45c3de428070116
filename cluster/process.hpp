// One process of a job, as its session sees the others: terms, calls between the process that leads and those that
// serve, memory that is offered, saves that are kept in memory. Owns the end of the link to the supervisor, the thread
// that listens to it and the clock; what follows from what it hears is process_state.hpp's, what calls say is the
// session's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/clock_offset.hpp"
#include "cluster/link.hpp"
#include "cluster/process_state.hpp"

namespace troupe::cluster {

struct process_setup {  ///< what a process says of itself
  uint32_t place = 0;
  int64_t lost_after_ns = 5'000'000'000;
  std::string version, configuration;
};

/// Where a process finds its link: the environment of one that `troupe train` has started.
inline constexpr const char* link_variable = "TROUPE_LINK";
/// And, of a job on several machines, the address on which it takes bytes from those of others.
inline constexpr const char* address_variable = "TROUPE_ADDRESS";
/// And the machine's number, where it is not the first.
inline constexpr const char* machine_variable = "TROUPE_MACHINE";
struct link_place {  ///< the inherited end, and the process's place
  int descriptor = -1;
  uint32_t place = 0;
};
/// Nothing where this process was started alone. The variable is removed.
std::optional<link_place> take_link_place();

/// The session's thread calls; handlers run on the listening thread, and only tell.
class process {
 public:
  /// Says hello. `end` is the inherited one. Without one, or with a limit of silence of 0 or less, the supervisor
  /// counts as lost at once: `next_term` says why.
  process(shared_descriptor end, process_setup setup);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  /// Says that this process leaves, and waits until the supervisor has heard it, if `leave` was called. Otherwise the
  /// process ends for a reason that nobody foresaw (an exception, an exit), and the supervisor counts it as lost.
  ~process();

  [[nodiscard]] uint32_t place() const { return setup_.place; }

  // ---- terms
  /// Waits for a term in which this process has ranks. Errors: the run's, where it ends; stopped, where the job is
  /// over.
  core::result<term_order> next_term();
  [[nodiscard]] uint64_t term() const;
  /// Whether this process leads the term, or led the last one.
  [[nodiscard]] bool leads() const;
  /// Why the term ended; nothing while it runs. Where `is_final` the run is over.
  [[nodiscard]] std::optional<end_term> ending() const;
  /// Waits until it ends.
  [[nodiscard]] end_term wait_for_end();
  /// Called once when the term that runs ends, and at once if it has.
  void on_end(std::function<void(const core::error&)> tell);
  /// Says that this process's ranks are ready, with so many steps done, and waits until all are. Errors: the term has
  /// ended.
  core::result<void> ready(const std::string& digest, uint64_t step = 0);
  /// This process's ranks have ended and use nothing of the others.
  void quiet();
  /// A rank of this process failed: the run ends, unless another process is lost, or the link to one. `lost_place`:
  /// the process of another machine to which this one has lost its link. Waits for nothing.
  void fail(const core::error& why, uint32_t lost_place = no_place);
  /// Whether processes wait to join, so that the term should end at the next boundary (`change`).
  [[nodiscard]] bool is_join_wanted() const;
  /// Of the process that leads, between two steps whose states are kept: ends the term for one with `data` data ranks
  /// (0: as many as were planned last, where there can be so many).
  void change(uint32_t data);

  // ---- memory of the term
  /// Errors: bad_input, where there is nothing to give.
  core::result<void> give(uint32_t number, const shared_descriptor& what);
  /// Waits for what others offer under these numbers. Errors: the term has ended.
  core::result<std::map<uint32_t, shared_descriptor>> take(const std::vector<uint32_t>& numbers);
  /// Where this process takes bytes from those of other machines.
  void give_address(const std::string& host, uint16_t port);
  /// Waits for those of other processes, by place. Errors: the term has ended.
  core::result<std::map<uint32_t, address>> addresses(const std::vector<uint32_t>& places);

  // ---- calls
  /// Of the process that leads: to all others of the term. Gives the number that answers have.
  uint64_t tell(std::string what);
  /// Waits for as many answers. [in the order that they came] Errors: the term has ended; bad_input, for a number that
  /// `tell` has not given.
  core::result<std::vector<answer>> answers(uint64_t number, size_t count);
  /// Waits for the next call. Errors: the term has ended, as `ending` says; stopped, where the job is over.
  core::result<call> next_call();
  /// To the process that leads; `number` 0: unasked, for its `on_note`.
  void reply(uint64_t number, std::string what);
  void on_note(std::function<void(const answer&)> hear);

  // ---- saves in memory
  /// Errors: bad_input, where no memory holds it.
  core::result<void> keep(const std::string& path, uint64_t bytes, const shared_descriptor& with);
  /// The files written under `written` are whole, and are those of `folder`.
  void keep_whole(const std::string& folder, const std::string& written, uint64_t step);

  // ---- for people
  /// Who is there, of the process that leads.
  [[nodiscard]] roster people() const;
  /// As process_state::unanswered().
  [[nodiscard]] std::vector<uint32_t> unanswered() const;
  /// Of the process that leads: the machine `host` rests from the next boundary on, and a spare one takes its place.
  void replace(const std::string& host);
  /// The supervisor's clock against this process's; nothing before the first round trip.
  [[nodiscard]] std::optional<clock_reading> clock() const;

  /// What this process is in, when people ask; from the listening thread.
  void on_question(std::function<std::string()> describe);
  /// The process's part in the job ends as planned, with this exit code.
  void leave(int32_t code) { code_ = code; }

 private:
  void listen();
  void hear(parcel p);
  void lost_supervisor(const std::string& how);
  /// Does what follows from an event, and wakes whoever waits for it.
  void follow(std::unique_lock<std::mutex> lock, consequence what);
  void send(message m, std::vector<shared_descriptor> with = {});
  void wake() const;
  /// Until `get` gives something.
  template <class Get>
  auto wait(Get get);

  process_setup setup_;
  socket_link link_;
  shared_descriptor wake_;
  std::atomic<bool> stopping_{false};
  std::optional<int32_t> code_;

  mutable std::mutex mutex_;
  std::condition_variable came_;
  process_state state_;
  uint64_t number_ = 0;
  std::function<void(const core::error&)> tell_end_;
  std::function<void(const answer&)> note_;
  std::function<std::string()> describe_;
  std::thread listener_;  // last: it uses the others
};

}  // namespace troupe::cluster
