// Simulates a process of a job: the production state machine of its terms (cluster/process_state.hpp) and production
// message frames, the production actors of its ranks in each term, and a script that acts as session::parts between
// them. Owns the script. Has no memory, tensors or files; a save is only the number of its step.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/processes/calls.hpp"
#include "actors/processes/members.hpp"
#include "cluster/process_state.hpp"
#include "sim/terms/modelled_link.hpp"
#include "sim/terms/run_watch.hpp"
#include "sim/terms/script.hpp"
#include "sim/terms/term_company.hpp"
#include "sim/terms/term_record.hpp"

namespace troupe::sim {

/// Error text of a process on a machine that cannot read the training data.
inline constexpr const char* unfit_text = "the text cannot be read here";

class simulated_process;

struct connections {               ///< the connections between the machines of a simulated world
  std::vector<uint32_t> machines;  ///< [process]; index of the machine that it runs on
  std::set<uint32_t> unfit{};      ///< machines whose processes cannot read the training data
  passing passes;
  /// Returns the virtual time, in ns, at which the cut of the link between two machines ends; empty: none is cut.
  std::function<int64_t(uint32_t one, uint32_t other)> cut_until{};
  /// Runs a function at virtual time `due_ns`.
  std::function<void(int64_t due_ns, std::function<void()>)> later;
  /// Returns the process with this index, or null if none runs.
  std::function<simulated_process*(uint32_t place)> at;
  std::map<uint64_t, std::shared_ptr<term_collectives>>
      collectives{};  ///< collectives of each term, by the term's number
};

struct run_of_term {  ///< a run of a plan in a term
  const plans_by_choice* plans = nullptr;
  std::vector<uint32_t> machines{};  ///< [rank]: index of the machine that it runs on
  plan::plan_choice which = plan::plan_choice::train;
  uint64_t step = 0;  ///< number of the step, from 1
};
struct run_fault {  ///< a fault of an executor in one run, and the number by which the world knows it
  size_t number = 0;
  actors::sim_fault what;
};

struct surroundings {  ///< the objects that all processes of a simulated world share
  caf::actor_system& system;
  actors::sim_scheduler& clock;
  run_watch& watch;
  /// Returns the plans of the job with this number of data ranks; null: the job cannot have it.
  std::function<const plans_by_choice*(uint32_t data)> plans{};
  std::map<const cluster::descriptor*, std::shared_ptr<term_collectives>> collectives{};
  uint64_t steps = 0;  ///< number of steps of the job
  uint64_t seed = 0;
  int64_t lost_after_ns = 0;
  actors::sim_fault fault{};  ///< fault of an executor; strikes at most one rank
  planted defect = planted::nothing;
  plan::cost_model costs{};
  actors::patience patience{std::chrono::seconds{3}, std::chrono::seconds{6}, std::chrono::seconds{6}, {}};
  uint64_t memory_every = 1;  ///< number of steps between saves in memory; 0: none. The first step saves nothing
  uint64_t disk_every = 0;  ///< number of steps between checkpoints on the disk, which replace saves in memory; 0: none
  uint64_t disk_step = 0;   ///< number of steps of the newest checkpoint on the disk; 0: there is none
  std::vector<term_record> terms{};
  /// Returns the faults of executors in a run; empty: there are none.
  std::function<std::vector<run_fault>(const run_of_term&)> faults_of{};
  /// Called when one of them has happened, with its number.
  std::function<void(size_t fault, int64_t at_ns)> has_struck{};
  /// Returns the link of each communicator of plans whose ranks are on these machines; empty: the usual ones.
  std::function<std::vector<fabric::linear_link>(const plans_by_choice&, const std::vector<uint32_t>& machines)>
      links_of{};
  connections* between = nullptr;  ///< connections between machines, or null if there is only one machine
  /// Actors of killed processes. They do nothing more, but their memory must remain valid, because other processes have
  /// it mapped.
  std::vector<std::unique_ptr<term_company>> left_behind{};
};

class simulated_process {
 public:
  simulated_process(surroundings& around, uint32_t place, std::unique_ptr<cluster::link> end);
  ~simulated_process();
  simulated_process(const simulated_process&) = delete;
  simulated_process& operator=(const simulated_process&) = delete;

  /// Acts as the process's listening thread: reads messages and checks timeouts.
  void listen();
  /// Returns the virtual time, in ns, at which the listening thread acts next even if no message arrives.
  [[nodiscard]] int64_t looks_at_ns() const { return std::min(looked_ns_ + state_.beat_ns(), rested_ns_); }
  /// Resumes the script of the process's other threads if the condition it waits for is true.
  void go_on() { room_.go_on(); }
  /// Suspends the process for `ns` of virtual time, like a stop signal.
  void stop(int64_t ns);
  /// Returns true if the process has ended.
  [[nodiscard]] bool is_over() const { return life_script_.is_done(); }
  /// Returns the error with which the process ended, or an empty text if it ended without one.
  [[nodiscard]] std::string why() const;
  /// Kills the process. If `says` is true, its operating system closes its connections, otherwise its machine is lost.
  void kill(bool says = true);
  /// Marks that the launcher or agent that started the process has ended.
  void orphan() { life_->orphaned = true; }
  /// Marks that the connection of the process's agent has ended.
  void cut_off() { life_->cut_off = true; }
  /// Ends the connection to process `place` on another machine, if this process is in `term`.
  void lose_peer(uint64_t term, uint32_t place);
  /// Ends the connection to process `place` on another machine, if that process is in the current term.
  void lose_peer_now(uint32_t place) {
    if (life_->term != 0 &&
        std::ranges::find(order_.order.seats, place, &cluster::seat::place) != order_.order.seats.end())
      lose_peer(life_->term, place);
  }
  [[nodiscard]] bool is_executor_struck() const { return struck_; }
  /// Returns true if rank `rank` of the current term belongs to this process.
  [[nodiscard]] bool has_rank(uint32_t rank) const;
  /// Returns the number of the step that the process's ranks run, from 1, or 0 if they run none.
  [[nodiscard]] uint64_t step() const { return life_->has_a_run ? run_step_ : 0; }
  /// Lets no request of the process's ranks to the disk end for some time.
  void freeze_disk(std::chrono::nanoseconds time) {
    if (company_) company_->freeze_disk(time);
  }

 private:
  script live();
  script be_in_term();
  script enter();
  script lead();
  script serve();
  script keep();
  script run(plan::plan_choice which);
  script run_here(actors::run_call c);
  script leave_term(core::error why);

  void say(cluster::message m, std::vector<cluster::shared_descriptor> with = {});
  void hear(std::vector<cluster::parcel> came);
  void follow(cluster::consequence what);
  void wait_for_cut_links(const std::vector<uint32_t>& places);
  [[nodiscard]] std::vector<uint32_t> machines_of_ranks() const;
  void note_term(resume_source from);
  /// is_for_disk() returns true if the states after `step` steps belong to a checkpoint on the disk, is_for_memory() if
  /// they belong to a save in memory.
  [[nodiscard]] bool is_for_disk(uint64_t step) const;
  [[nodiscard]] bool is_for_memory(uint64_t step) const;
  void arm_faults(const actors::run_call& c);
  void keep_files(const actors::run_call& c);
  void commit(const actors::run_call& c);
  void offer(uint32_t number, const cluster::shared_descriptor& what);
  void copy_file(const std::string& path, uint64_t bytes);
  void close_connections();
  void look_at_files();
  [[nodiscard]] actors::term_members members() const { return {life_->place, order_.order.seats}; }
  /// Returns the numbers of the offers (shared memory, events) of other processes that this process needs in its term.
  [[nodiscard]] std::vector<uint32_t> wanted_offers() const;
  [[nodiscard]] uint32_t num_ranks() const;
  [[nodiscard]] std::vector<uint32_t> places_elsewhere() const;

  surroundings& around_;
  shared_life life_ = std::make_shared<life>();
  std::unique_ptr<cluster::link> link_;
  cluster::process_state state_;
  int64_t looked_ns_;
  int64_t rested_ns_ = INT64_MAX;  ///< virtual time at which the ranks of an ending term have stopped

  cluster::term_order order_;
  std::shared_ptr<term_collectives> collectives_;
  std::unique_ptr<term_company> company_;
  std::vector<std::pair<size_t, size_t>> armed_;  ///< (number of a fault of the world, number in the company)
  uint64_t run_step_ = 0;                         ///< number of the step of the current or last run
  uint64_t steps_ = 0, runs_ = 0, calls_ = 0;
  std::map<uint64_t, uint32_t> parts_;  ///< number of processes that have written their part of a save, by number of
                                        ///< the run
  actors::run_call last_run_;
  bool has_led_ = false, done_ = false, struck_ = false, tells_ = false;
  uint32_t copies_left_ = 0;  ///< number of file copies in transit to another machine
  std::optional<core::error> lost_peer_;

  waiting_room room_;
  script life_script_;  // is the last member, because it uses the others
};

}  // namespace troupe::sim
