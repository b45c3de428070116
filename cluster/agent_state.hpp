// What the agent of a machine decides: what it passes on to whom, what it keeps, when its supervisor is lost. Owns the
// saves in memory that lie on this machine, and what its processes offer each other: events go in, what is to be done
// comes out. agent.hpp does it with real processes, simulations play it.
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
/// The job is over: processes that end may take their time from now on.
struct let_end {
  std::string why{};     ///< for people; empty: nothing is to be said
  bool goes_on = false;  ///< the job does, without this host
};
/// A line for the console's log.
struct tell_people {
  std::string line;
};
/// A machine_question, which comes before a job, is answered with a machine_answer. A job_order is the first action of
/// a job: processes can be started from now on. start_place and kill_place mean what they mean to an agent, and
/// signalled is a signal for the process in that place.
using agent_action = std::variant<tell_supervisor, tell_process, let_end, tell_people, job_order, start_place, kill_place,
                                  signalled, machine_question>;

class agent_state {  ///< of one agent that has joined; one thread
 public:
  explicit agent_state(int64_t now_ns) : heard_ns_(now_ns), looked_ns_(now_ns) {}

  // Events. Errors: mismatch, for what no supervisor says.
  core::result<void> hear(message m, int64_t now_ns);
  void hear_process(uint32_t place, parcel p);
  void process_ended(uint32_t place, const std::string& how) { tell(place_ended{place, how}); }
  /// One that ends the whole job, or asks for a save of it.
  void take_signal(int number);
  /// Time has passed, and something has come meanwhile or nothing has. Errors: peer_lost, where the supervisor has been
  /// silent for too long; then no process may be left here.
  core::result<void> look(int64_t now_ns, bool something_came);

  /// What is to be done since the last call, in order.
  std::vector<agent_action> take();
  /// When `look` has something to do, at the latest.
  [[nodiscard]] int64_t due_ns() const { return order_ ? beat_ns_ : INT64_MAX; }
  /// The job is over, with this code, since `over_ns`.
  [[nodiscard]] const std::optional<int>& code() const { return code_; }
  /// The supervisor is gone: with which code this agent ends where a signal wanted the end; nothing: it waits for
  /// another.
  [[nodiscard]] std::optional<int> code_alone() const { return code_ ? code_ : wanted_code_; }
  /// There was no job: the supervisor has asked what it wanted, and waits for nobody any more.
  [[nodiscard]] bool is_let_go() const { return is_let_go_; }
  [[nodiscard]] int64_t over_ns() const { return over_ns_; }
  /// Of a supervisor that is gone, which is so.
  static core::error lost(const std::string& how) { return {core::error_kind::peer_lost, "the first host: " + how}; }

 private:
  void tell(message m) { actions_.emplace_back(tell_supervisor{std::move(m)}); }
  void pass_down(uint32_t place, message m);

  std::optional<job_order> order_;
  std::optional<begin_term> term_;
  uint64_t ended_term_ = 0;  ///< the last whose end people were told
  kept_saves saves_;
  std::optional<int> code_, wanted_code_;
  bool is_let_go_ = false;
  int64_t heard_ns_, looked_ns_, beat_ns_ = 0, over_ns_ = 0;
  std::vector<agent_action> actions_;
};

}  // namespace troupe::cluster
