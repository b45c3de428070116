// Decides for a process of a job: which term it is in, which messages have come for it, and when it gives its ranks up.
// Owns these decisions and nothing else: events go in, consequences come out. process.hpp executes the consequences
// with a thread and a link, simulations without them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/clock_offset.hpp"
#include "cluster/messages.hpp"
#include "cluster/silence.hpp"

namespace troupe::cluster {

/// A file of a save in memory, and which process's machine holds it.
struct file_in_memory {
  uint64_t bytes = 0;
  shared_descriptor with;  ///< descriptor of the file's memory; null if the file is on another machine
  uint32_t place = 0;      ///< number of a process of the term whose machine holds the file
};

struct term_order {  ///< the supervisor's order to begin a term, with the files that the term continues from
  begin_term order;
  std::map<std::string, file_in_memory> files;  ///< [path]: file of the save that the term continues from
};

/// Actions that the caller must take after an event.
struct consequence {
  std::optional<message> say;        ///< message to send to the supervisor; nullopt: none
  std::optional<core::error> ended;  ///< error with which the ranks must stop; set if the term has just ended
  /// Note that another process sent to this one, to pass to the handler that process::on_note set; nullopt: none
  std::optional<answer> note;
};

/// Makes the decisions of one process of a job: receives events, and returns consequences for the caller to execute.
/// Used by one thread at a time.
class process_state {
 public:
  process_state(uint32_t place, int64_t lost_after_ns, int64_t now_ns);

  // Functions that handle events.
  consequence hear(parcel p, int64_t now_ns);
  consequence lose_supervisor(const std::string& how);
  /// Handles the passing of time; called at least every `beat_ns`. If the process did not run for give_up_ns, or none
  /// of its beats of the last give_up_ns was answered, it gives its ranks up before its supervisor plans without them.
  /// The time counts from the sending of the last answered beat, so a late answer does not extend it.
  consequence look(int64_t now_ns);
  /// Returns the heartbeat to send if its time has come; otherwise nothing.
  std::optional<beat> due_beat(int64_t now_ns);
  [[nodiscard]] int64_t beat_ns() const { return cluster::beat_ns(lost_after_ns_); }

  // Functions for which the session waits; each returns nothing until the awaited event has happened. Errors: see
  // process.hpp.
  std::optional<core::result<term_order>> next_term();
  [[nodiscard]] std::optional<core::result<void>> started() const;
  std::optional<core::result<std::map<uint32_t, shared_descriptor>>> take(const std::vector<uint32_t>& numbers);
  std::optional<core::result<std::map<uint32_t, address>>> addresses(const std::vector<uint32_t>& places);
  std::optional<core::result<std::vector<answer>>> answers(uint64_t number, size_t count);
  /// Returns the numbers of the other processes with ranks that have not answered the awaited call; empty if no call is
  /// awaited, or if only some of these processes must answer.
  [[nodiscard]] std::vector<uint32_t> unanswered() const;
  std::optional<core::result<call>> next_call();
  [[nodiscard]] std::optional<end_term> end_of_term() const;

  // Functions that return the state of the process.
  [[nodiscard]] uint64_t term() const { return term_; }
  [[nodiscard]] bool leads() const { return leads_; }
  [[nodiscard]] bool is_join_wanted() const { return join_wanted_; }
  void forget_join() { join_wanted_ = false; }
  [[nodiscard]] const std::optional<end_term>& ending() const { return ending_; }
  /// Returns the list of the job's processes that the supervisor sent last; empty in a process that has never led.
  [[nodiscard]] const roster& people() const { return people_; }
  [[nodiscard]] std::optional<clock_reading> clock(int64_t now_ns) const { return clock_.at(now_ns); }

 private:
  consequence end(const end_term& why);
  void look_at_clock(int64_t now_ns);
  /// Returns the reason why no awaited event can come any more; nothing while one can.
  [[nodiscard]] std::optional<core::error> is_over() const;

  uint32_t place_;
  int64_t lost_after_ns_;
  int64_t last_contact_ns_, looked_ns_, beat_due_ns_;
  int64_t answered_ns_ = INT64_MIN;  ///< time at which the last answered beat was sent
  uint64_t term_ = 0, started_ = 0;
  bool is_cut_off_ = false;  ///< true: the supervisor sent nothing for so long that it may plan without this process
  /// Time at which the process began to run, at first or again after a pause, until a beat sent since then is answered.
  std::optional<int64_t> back_ns_;
  bool leads_ = false, join_wanted_ = false, is_first_beat_ = false;
  std::deque<begin_term> terms_;
  std::map<std::string, file_in_memory> files_;
  /// [term, number of the offer]: descriptor of memory or an event that another process of the term has offered
  std::map<std::pair<uint64_t, uint32_t>, shared_descriptor> offers_;
  /// [term, number of the process]: network address that the process has sent
  std::map<std::pair<uint64_t, uint32_t>, address> addresses_;
  std::deque<call> calls_;
  std::vector<answer> answers_;
  std::optional<std::pair<uint64_t, size_t>> awaited_;  ///< number of the awaited call, count of expected answers
  std::optional<end_term> ending_;
  std::optional<core::error> over_;
  roster people_;
  clock_offset clock_;
};

}  // namespace troupe::cluster
