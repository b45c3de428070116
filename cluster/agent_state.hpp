// Decides for the agent of a machine: which messages it passes on, what it stores, and when its supervisor is lost.
// Owns the saves in memory that are stored on this machine, and the offers between its processes. Events go in, actions
// come out. agent.hpp executes the actions with real processes, simulations without processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cluster/kept_saves.hpp"
#include "cluster/messages.hpp"

namespace troupe::cluster {

struct tell_supervisor {
  message what;
};
struct tell_process {
  uint32_t place = 0;
  parcel what;
};
/// Action: the job is over, so processes that close their links may take their time to end.
struct let_end {
  /// reason, as a message for the user, why this machine is left out or the job ended; empty: no message
  std::string why{};
  bool goes_on = false;  ///< true if the job continues without this machine
};
/// Action: print a line to the console's log.
struct tell_people {
  std::string line;
};
/// Action that the caller of agent_state must execute. machine_question: answer a question of `troupe doctor` with a
/// machine_answer. job_order: prepare the job; it comes before the job's other actions. start_place, kill_place: start
/// or kill the process with that number. signalled: send the signal to the process with that number.
using agent_action = std::variant<tell_supervisor, tell_process, let_end, tell_people, job_order, start_place,
                                  kill_place, signalled, machine_question>;

/// Makes the decisions of one agent that has joined a job: receives events, and returns actions for the caller to
/// execute. Used by one thread.
class agent_state {
 public:
  explicit agent_state(int64_t now_ns) : last_contact_ns_(now_ns), looked_ns_(now_ns) {}

  // Functions that handle events. Errors: mismatch, for a message that no supervisor sends.
  core::result<void> hear(message m, int64_t now_ns);
  void hear_process(uint32_t place, parcel p);
  void process_ended(uint32_t place, const std::string& how) { tell(place_ended{place, how}); }
  /// Handles a signal by which the user ends the whole job or requests a save.
  void take_signal(int number);
  /// Handles the passing of time. `something_came`: whether the supervisor has sent anything since the last call.
  /// Errors: peer_lost, if the supervisor has been silent for `cluster.lost_after`; the caller must then kill all
  /// processes of the job on this machine.
  core::result<void> look(int64_t now_ns, bool something_came);

  /// Returns the actions since the last call, in order.
  std::vector<agent_action> take();
  /// Returns the latest time at which `look` must be called.
  [[nodiscard]] int64_t due_ns() const { return order_ ? beat_ns_ : INT64_MAX; }
  /// Returns the exit code of the job, which has been over since `over_ns`; nothing while it is not over.
  [[nodiscard]] const std::optional<int>& code() const { return code_; }
  /// Returns the exit code of an agent that has lost its supervisor: the job's, or the one of a signal that requested
  /// the end. Nothing: the agent waits for another supervisor.
  [[nodiscard]] std::optional<int> code_alone() const { return code_ ? code_ : wanted_code_; }
  /// True if the supervisor has asked only questions of `troupe doctor` and then dismissed the agent without a job.
  [[nodiscard]] bool is_let_go() const { return is_let_go_; }
  [[nodiscard]] int64_t over_ns() const { return over_ns_; }
  /// Returns the error that the supervisor is gone. `how` completes the sentence "the first host: ", for example with
  /// "was silent for 5.0 s".
  static core::error lost(const std::string& how) { return {core::error_kind::peer_lost, "the first host: " + how}; }

 private:
  void tell(message m) { actions_.emplace_back(tell_supervisor{std::move(m)}); }
  void pass_down(uint32_t place, message m);

  std::optional<job_order> order_;
  std::optional<begin_term> term_;
  uint64_t ended_term_ = 0;  ///< number of the last term whose end was printed on this machine's console
  kept_saves saves_;
  std::optional<int> code_, wanted_code_;
  bool is_let_go_ = false;
  int64_t last_contact_ns_, looked_ns_, beat_ns_ = 0, over_ns_ = 0;
  std::vector<agent_action> actions_;
};

}  // namespace troupe::cluster
