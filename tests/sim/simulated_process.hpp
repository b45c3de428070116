// Simulates a process of a job: production's view of its terms (cluster/process_state.hpp) and production's frames, a
// company of production actors in each term, and a script that acts as session::parts between them. Owns the script.
// Has no memory, tensors or files; saves are numbers of steps.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/processes/calls.hpp"
#include "actors/processes/members.hpp"
#include "cluster/process_state.hpp"
#include "tests/fakes/link.hpp"
#include "tests/sim/run_watch.hpp"
#include "tests/sim/script.hpp"

namespace troupe::actors {

/// Defects that a test plants and the invariants must find.
enum class planted : uint8_t {
  nothing,
  next_term_without_quiet,  ///< the supervision treats processes as quiet as soon as it has told them to end
  quiet_with_ranks,         ///< a process reports that it is quiet before its ranks have ended
  end_is_ignored,           ///< a process continues when its term ends
  silence_is_ignored,       ///< a process continues although it receives nothing of its supervisor
};

/// Error text of a process on an unfit machine.
inline constexpr const char* unfit_text = "the text cannot be read here";

class simulated_process;

struct network {                   ///< connects the machines of a world
  std::vector<uint32_t> machines;  ///< [place]; machine of the process
  std::set<uint32_t> unfit{};      ///< machines that lack what a term needs
  passing passes;
  /// Runs a function at virtual time `due_ns`.
  std::function<void(int64_t due_ns, std::function<void()>)> later;
  /// Returns the process in a place; null: none.
  std::function<simulated_process*(uint32_t place)> at;
  std::map<uint64_t, std::shared_ptr<term_meetings>> meetings{};  ///< by number of the term
};

struct surroundings {  ///< shared by all processes of a world
  caf::actor_system& system;
  sim_scheduler& clock;
  run_watch& watch;
  std::map<uint32_t, plans_by_choice> plans;  ///< by number of data ranks
  std::map<const cluster::descriptor*, std::shared_ptr<term_meetings>> meetings{};
  uint64_t steps = 0;  ///< number of steps of the job
  uint64_t seed = 0;
  int64_t lost_after_ns = 0;
  sim_fault fault{};  ///< fault of an executor
  planted defect = planted::nothing;
  network* between = nullptr;  ///< connects the machines; null: there is one machine
  /// Companies of killed processes. Their actors do nothing more; their memory stays, because other processes have it
  /// mapped.
  std::vector<std::unique_ptr<term_company>> left_behind{};
};

class simulated_process {
 public:
  simulated_process(surroundings& around, uint32_t place, std::unique_ptr<cluster::link> end);
  ~simulated_process();
  simulated_process(const simulated_process&) = delete;
  simulated_process& operator=(const simulated_process&) = delete;

  /// Acts as the listening thread: reads messages and checks timeouts.
  void listen();
  /// Returns the virtual time, in ns, at which the listening thread acts even without a message.
  [[nodiscard]] int64_t looks_at_ns() const { return std::min(looked_ns_ + state_.beat_ns(), rested_ns_); }
  /// Resumes the process's other threads.
  void go_on() { room_.go_on(); }
  /// Stops the process for `ns` of virtual time.
  void stop(int64_t ns);
  /// True if the process has left.
  [[nodiscard]] bool is_over() const { return life_script_.is_done(); }
  /// Returns why the process left; empty: in good order.
  [[nodiscard]] std::string why() const;
  /// Kills the process. `says`: its operating system closes its connections; false if its machine is lost.
  void kill(bool says = true);
  /// Marks that the launcher or agent that started the process is gone.
  void orphan() { life_->orphaned = true; }
  /// Marks that the connection of the process's agent has ended.
  void cut_off() { life_->cut_off = true; }
  /// Ends the connection to the process in `place` on another machine, if this process is in `term`.
  void lose_peer(uint64_t term, uint32_t place);
  /// Ends the connection to the process in `place` on another machine, if that process is in the current term.
  void lose_peer_now(uint32_t place) {
    if (life_->term != 0 &&
        std::ranges::find(order_.order.seats, place, &cluster::seat::place) != order_.order.seats.end())
      lose_peer(life_->term, place);
  }
  [[nodiscard]] bool is_executor_struck() const { return struck_; }

 private:
  script live();
  script be_in_term();
  script enter();
  script lead();
  script serve();
  script keep();
  script run(plan::plan_choice which);
  script run_here(run_call c);
  script leave_term(core::error why);

  void say(cluster::message m, std::vector<cluster::shared_descriptor> with = {});
  void hear(std::vector<cluster::parcel> came);
  void follow(cluster::consequence what);
  void keep_files(const run_call& c);
  void commit(const run_call& c);
  void offer(uint32_t number, const cluster::shared_descriptor& what);
  void copy_file(const std::string& path, uint64_t bytes);
  void close_connections();
  void look_at_files();
  [[nodiscard]] term_members members() const { return {life_->place, order_.order.seats}; }
  /// Returns the numbers of the offers of other processes that this process needs in its term.
  [[nodiscard]] std::vector<uint32_t> wanted_offers() const;
  [[nodiscard]] uint32_t num_ranks() const;
  [[nodiscard]] std::vector<uint32_t> places_elsewhere() const;

  surroundings& around_;
  shared_life life_ = std::make_shared<life>();
  std::unique_ptr<cluster::link> link_;
  cluster::process_state state_;
  int64_t looked_ns_;
  int64_t rested_ns_ = INT64_MAX;  ///< virtual time at which a company that was told to end has ended

  cluster::term_order order_;
  std::shared_ptr<term_meetings> meetings_;
  std::unique_ptr<term_company> company_;
  uint64_t steps_ = 0, runs_ = 0, calls_ = 0;
  std::map<uint64_t, uint32_t> parts_;  ///< by number of the run: parts of its save that other processes have written
  run_call last_run_;
  bool has_led_ = false, done_ = false, struck_ = false, tells_ = false;
  uint32_t copies_left_ = 0;  ///< copies of files on their way to another machine
  std::optional<core::error> lost_peer_;

  waiting_room room_;
  script life_script_;  // last member, because it uses the others
};

}  // namespace troupe::actors
