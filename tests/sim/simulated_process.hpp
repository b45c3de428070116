// A process of a job in simulation: production's view of its terms (cluster/process_state.hpp) and production's frames,
// a company of production actors in each term, and between them a script that does what session::parts does. Owns the
// script; memory, tensors and files are not there, saves are numbers of steps.
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

/// Defects that the invariants must find.
enum class planted : uint8_t {
  nothing,
  next_term_without_quiet,  ///< the supervision takes those that it has told to end for quiet
  quiet_with_ranks,         ///< a process says that it is quiet before its ranks have ended
  end_is_ignored,           ///< a process goes on when its term ends
  silence_is_ignored,       ///< a process goes on though it does not hear its supervisor
};

/// What a process of a machine that is unfit fails with.
inline constexpr const char* unfit_text = "the text cannot be read here";

class simulated_process;

struct network {                   ///< of a world of several machines
  std::vector<uint32_t> machines;  ///< [place]
  std::set<uint32_t> unfit{};      ///< machines that lack what a term needs
  passing passes;
  /// Does something once the time has come.
  std::function<void(int64_t due_ns, std::function<void()>)> later;
  /// Who lives in a place; null: nobody.
  std::function<simulated_process*(uint32_t place)> at;
  std::map<uint64_t, std::shared_ptr<term_meetings>> meetings{};  ///< by term
};

struct surroundings {  ///< of the processes of a world
  caf::actor_system& system;
  sim_scheduler& clock;
  run_watch& watch;
  std::map<uint32_t, plans_by_choice> plans;  ///< by data ranks
  std::map<const cluster::descriptor*, std::shared_ptr<term_meetings>> meetings{};
  uint64_t steps = 0;  ///< of the job
  uint64_t seed = 0;
  int64_t lost_after_ns = 0;
  sim_fault fault{};  ///< an executor's
  planted defect = planted::nothing;
  network* between = nullptr;  ///< machines; null: there is one
  /// Of killed processes. Their actors do nothing any more, and their memory stays, as others have it mapped.
  std::vector<std::unique_ptr<term_company>> left_behind{};
};

class simulated_process {
 public:
  simulated_process(surroundings& around, uint32_t place, std::unique_ptr<cluster::link> end);
  ~simulated_process();
  simulated_process(const simulated_process&) = delete;
  simulated_process& operator=(const simulated_process&) = delete;

  /// The listening thread looks: at what has come, and at the clock.
  void listen();
  /// When it looks, though nothing comes.
  [[nodiscard]] int64_t looks_at_ns() const { return std::min(looked_ns_ + state_.beat_ns(), rested_ns_); }
  /// Its other threads go on.
  void go_on() { room_.go_on(); }
  /// It does not run for a while.
  void stop(int64_t ns);
  /// It said that it leaves.
  [[nodiscard]] bool is_over() const { return life_script_.is_done(); }
  /// Why it left; empty: in good order.
  [[nodiscard]] std::string why() const;
  /// Nothing of it happens any more. `says`: its system closes its connections; it does not where its machine is lost.
  void kill(bool says = true);
  /// Who started it is gone.
  void orphan() { life_->orphaned = true; }
  /// Its agent's connection has ended.
  void cut_off() { life_->cut_off = true; }
  /// A connection to a process of another machine has ended, of this term.
  void lose_peer(uint64_t term, uint32_t place);
  /// The same, of the term that it is in.
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
  /// Those of others that a process of a term needs.
  [[nodiscard]] std::vector<uint32_t> wanted_offers() const;
  [[nodiscard]] uint32_t num_ranks() const;
  [[nodiscard]] std::vector<uint32_t> places_elsewhere() const;

  surroundings& around_;
  shared_life life_ = std::make_shared<life>();
  std::unique_ptr<cluster::link> link_;
  cluster::process_state state_;
  int64_t looked_ns_;
  int64_t rested_ns_ = INT64_MAX;  ///< when a company that was told to end can

  cluster::term_order order_;
  std::shared_ptr<term_meetings> meetings_;
  std::unique_ptr<term_company> company_;
  uint64_t steps_ = 0, runs_ = 0, calls_ = 0;
  std::map<uint64_t, uint32_t> parts_;  ///< of saves, by run: that other processes have written
  run_call last_run_;
  bool has_led_ = false, done_ = false, struck_ = false, tells_ = false;
  uint32_t copies_left_ = 0;  ///< on their way to another machine
  std::optional<core::error> lost_peer_;

  waiting_room room_;
  script life_script_;  // last: it uses the others
};

}  // namespace troupe::actors
