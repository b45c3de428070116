// Connects one process of a job with the other processes, for its session: terms, calls from the leading process and
// their answers, shared memory, saves that are kept in memory. Owns the end of the link to the supervisor, the thread
// that listens to it and the clock. Leaves the consequences of messages to process_state.hpp, and the content of calls
// to the session.
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

struct process_setup {  ///< what a process reports about itself
  uint32_t place = 0;
  int64_t lost_after_ns = 5'000'000'000;
  std::string version, configuration;
};

/// Environment variable with the link of a process that `troupe train` has started, as DESCRIPTOR:PLACE: the number of
/// the inherited descriptor, and the number of the process in its job.
inline constexpr const char* link_variable = "TROUPE_LINK";
/// Environment variable with the address at which a process receives bytes from other machines; set in a job on several
/// machines.
inline constexpr const char* address_variable = "TROUPE_ADDRESS";
/// Environment variable with the number of the process's machine; set on machines other than the first.
inline constexpr const char* machine_variable = "TROUPE_MACHINE";
struct link_place {  ///< the inherited end of the link to the supervisor, and the number of this process in its job
  int descriptor = -1;
  uint32_t place = 0;
};
/// Returns the process's link; nothing if this process was started alone. Removes `link_variable` from the environment.
std::optional<link_place> take_link_place();

/// One process of a job. The session's thread calls it; handlers run on the listening thread and may only send a
/// notification.
class process {
 public:
  /// Connects to the supervisor and sends `hello`. `end`: the inherited end of the link. If `end` is null, or
  /// `setup.lost_after_ns` is 0 or less, the supervisor counts as lost at once, and `next_term` returns the reason.
  process(shared_descriptor end, process_setup setup);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  /// If `leave` was called, sends `leaving` and waits at most 2 s until the supervisor has taken it. Otherwise the
  /// process ends for an unforeseen reason (an exception, an exit), and the supervisor counts it as lost.
  ~process();

  [[nodiscard]] uint32_t place() const { return setup_.place; }

  // ---- functions that begin, watch and end terms

  /// Waits for a term in which this process has a seat. Errors: the error of the run, if it has ended; stopped, if the
  /// job is over.
  core::result<term_order> next_term();
  [[nodiscard]] uint64_t term() const;
  /// True if this process leads the run (it has rank 0 of the term, and its session decides what the other processes
  /// do) or, between terms, led it in the last term.
  [[nodiscard]] bool leads() const;
  /// Returns why the term ended; nothing while it runs. If `is_final`, the run is over.
  [[nodiscard]] std::optional<end_term> ending() const;
  /// Waits until the term ends and returns why.
  [[nodiscard]] end_term wait_for_end();
  /// Sets a handler that is called once when the running term ends, and at once if it has ended.
  void on_end(std::function<void(const core::error&)> tell);
  /// Reports that this process's ranks are ready after `step` steps, and waits until all processes are ready. Errors:
  /// the term has ended.
  core::result<void> ready(const std::string& digest, uint64_t step = 0);
  /// Reports that this process's ranks have ended and use no memory of other processes.
  void quiet();
  /// Reports that a rank of this process failed. The run ends with `why`, unless the cause is the loss of another
  /// process, or of a link between machines. `lost_place`: number of the process of another machine to which this
  /// process has lost its link. Never blocks.
  void fail(const core::error& why, uint32_t lost_place = no_place);
  /// True if processes wait to join or a machine is to be replaced, so that the leading process should end the term by
  /// `change` at the next boundary between steps.
  [[nodiscard]] bool is_join_wanted() const;
  /// Ends the term, so that a term with `data` data ranks follows (0: as many as were planned last, if so many are
  /// possible). Called by the leading process between two steps, when the states are saved in memory.
  void change(uint32_t data);

  // ---- functions that share memory and network addresses with the other processes of a term

  /// Offers memory or an event to the other processes of the term. Errors: bad_input, if `what` is null.
  core::result<void> give(uint32_t number, const shared_descriptor& what);
  /// Waits until other processes have made offers with all of these numbers, and returns the offered descriptors.
  /// Errors: the term has ended.
  core::result<std::map<uint32_t, shared_descriptor>> take(const std::vector<uint32_t>& numbers);
  /// Announces the address at which this process receives bytes from processes of other machines.
  void give_address(const std::string& host, uint16_t port);
  /// Waits for the addresses of other processes and returns them by process number. Errors: the term has ended.
  core::result<std::map<uint32_t, address>> addresses(const std::vector<uint32_t>& places);

  // ---- functions for calls from the leading process, and for the answers of the other processes

  /// Sends a call from the leading process to all other processes of the term. Returns the number that answers carry.
  uint64_t tell(std::string what);
  /// Waits for `count` answers to call `number` and returns them in the order of arrival. Errors: the term has ended;
  /// bad_input, for a number that `tell` has not returned.
  core::result<std::vector<answer>> answers(uint64_t number, size_t count);
  /// Waits for the next call. Errors: the term has ended, see `ending`; stopped, if the job is over.
  core::result<call> next_call();
  /// Sends an answer to the leading process; with `number` 0 an unrequested note, for its `on_note` handler.
  void reply(uint64_t number, std::string what);
  void on_note(std::function<void(const answer&)> hear);

  // ---- functions that register saves in memory with the supervisor

  /// Registers a file of a save that is kept in memory. Errors: bad_input, if `with` is null.
  core::result<void> keep(const std::string& path, uint64_t bytes, const shared_descriptor& with);
  /// Reports that a save in memory, of the states after `step` steps, is complete: its files were written under
  /// `written` and belong to `folder` from now on.
  void keep_whole(const std::string& folder, const std::string& written, uint64_t step);

  // ---- functions for diagnosis and maintenance by a user

  /// Returns the list of the job's processes, with their machines and ranks; empty in a process that has never led.
  [[nodiscard]] roster people() const;
  /// Returns the numbers of the processes that have not answered the leading process's call yet, see
  /// process_state::unanswered().
  [[nodiscard]] std::vector<uint32_t> unanswered() const;
  /// Requests that from the next boundary between steps on a spare machine replaces machine `host`. Called by the
  /// leading process.
  void replace(const std::string& host);
  /// Returns the offset of the supervisor's clock to this process's clock; nothing before the first round trip.
  [[nodiscard]] std::optional<clock_reading> clock() const;

  /// Records that this process ends as planned, with exit code `code`, which the destructor reports to the supervisor.
  void leave(int32_t code) { code_ = code; }

 private:
  void listen();
  void hear(parcel p);
  void lost_supervisor(const std::string& how);
  /// Executes the consequence of an event, and wakes the threads that wait for it.
  void follow(std::unique_lock<std::mutex> lock, consequence what);
  void send(message m, std::vector<shared_descriptor> with = {});
  void wake() const;
  /// Waits until `get` returns a value that is set, and returns the value.
  auto wait(auto get);

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
  std::thread listener_;  // last member, so that it starts after all members that the thread uses exist
};

}  // namespace troupe::cluster
