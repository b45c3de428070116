// Runs the ranks of one simulated process in one term (a period with a fixed set of processes): production actors with
// modelled executors, whose collectives connect to those of the term's other processes. Owns the actors and the
// collectives; the process decides which term it is and which processes take part.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/company.hpp"
#include "actors/sim/modelled_executor.hpp"
#include "actors/sim/scheduler.hpp"
#include "actors/sim/sim.hpp"
#include "cluster/messages.hpp"
#include "fabric/linear_link.hpp"
#include "fabric/modelled.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::sim {

/// The state of one start of a process. Objects that outlive a killed process check it and then do nothing.
struct life {
  uint32_t place = 0, machine = 0;
  bool alive = true;
  bool stopped = false;    ///< true: a signal has stopped the process
  bool told = false;       ///< true: the process has received the end of its term and is stopping its ranks
  bool orphaned = false;   ///< true: the launcher or agent that started the process has ended
  bool cut_off = false;    ///< true: the connection of its agent has ended, and the agent will kill the process for
                           ///< that
  uint64_t term = 0;       ///< number of the term whose memory the process uses; 0: none
  bool has_a_run = false;  ///< true: the process is running a plan of that term
};
using shared_life = std::shared_ptr<life>;

/// Plans of all ranks, by plan_choice; empty if the job runs no plan of this kind.
using plans_by_choice = std::vector<actors::shared_rank_plans>;

/// Configuration of the actor system of a simulated job: one thread delivers messages when the simulation tells it to.
struct simulated_system : caf::actor_system_config {
  simulated_system() {
    add_message_types<caf::id_block::troupe>();
    set("scheduler.policy", caf::atom("testing"));
  }
};

/// Returns the virtual time, in ns, at which data can pass between two machines: now, or when a partition ends.
using passing = std::function<int64_t(uint32_t one, uint32_t other)>;

/// The collectives of a term. The leading process creates them and offers them to the others. Members of killed
/// processes remain but send nothing, like shared memory. No data arrives between partitioned machines, and a
/// collective at which all ranks have arrived may have ended for some of them only.
class term_collectives : public std::enable_shared_from_this<term_collectives> {
 public:
  /// `posted` is called whenever a rank of a process arrives at a collective of this term. `links` has the link of each
  /// communicator; empty: collectives take the usual times.
  term_collectives(actors::sim_scheduler& clock, const plan::job_layout& layout, uint64_t term,
                   std::function<void(uint64_t term, const life& who)> posted, passing passes = {},
                   const std::vector<fabric::linear_link>& links = {});

  std::shared_ptr<fabric::communicator> join(const shared_life& who, const std::shared_ptr<actors::rank_links>& links,
                                             uint32_t communicator, uint32_t member, fabric::waker wake);
  [[nodiscard]] const std::shared_ptr<actors::pulse_board>& pulses() const { return pulses_; }

  /// go_on() delivers the requests that waited for a partition that has ended; due_ns() returns the virtual time of the
  /// next delivery.
  void go_on();
  [[nodiscard]] int64_t due_ns() const;

 private:
  friend class watched_member;
  struct group {
    std::shared_ptr<fabric::modelled_group> meets;
    std::vector<std::weak_ptr<actors::rank_links>> members;
    std::vector<shared_life> lives;
  };
  struct held_back {
    int64_t due_ns = 0;
    uint32_t communicator = 0;
    std::weak_ptr<fabric::communicator> member;
    std::optional<fabric::request> arrives;  // the delayed request, or nothing if the member aborts instead
    core::error why;
  };
  /// Returns the virtual time, in ns, at which all members of the communicator receive data that `machine` sends now.
  [[nodiscard]] int64_t passes_from(uint32_t communicator, uint32_t machine) const;
  void wake_later(int64_t delay_ns, uint32_t communicator, uint32_t member, uint64_t sequence);
  actors::sim_scheduler& clock_;
  passing passes_;
  std::deque<held_back> held_back_;
  std::deque<std::vector<fabric::piece>> kept_pieces_;
  uint64_t term_;
  std::function<void(uint64_t, const life&)> posted_;
  std::vector<group> groups_;  // members of each communicator, by its index
  std::shared_ptr<actors::pulse_board> pulses_;
  std::vector<std::shared_ptr<fabric::communicator>> left_behind_;
};

struct company_setup {
  const plans_by_choice* plans = nullptr;
  cluster::seat seat;
  shared_life who;
  std::shared_ptr<term_collectives> collectives;
  uint64_t seed = 0;
  actors::sim_fault fault;  ///< the fault strikes the first process that runs its rank
  plan::cost_model costs{};
  actors::patience patience{};
};

/// The production actors of one process's ranks in one term.
class term_company {
 public:
  term_company(caf::actor_system& system, actors::sim_scheduler& clock, const company_setup& setup);
  ~term_company();
  term_company(const term_company&) = delete;
  term_company& operator=(const term_company&) = delete;

  /// Starts to run a plan. outcome() returns the result once the run has ended.
  void run(plan::plan_choice which, uint64_t number, uint64_t step);
  [[nodiscard]] const std::optional<actors::run_outcome>& outcome() const { return *answer_; }
  /// Adds a fault of an executor to the next run, and returns its number. struck_ns() returns the virtual time at which
  /// it happened, or -1.
  size_t arm(actors::sim_fault what);
  [[nodiscard]] int64_t struck_ns(size_t fault) const { return models_->faults[fault].struck_ns; }
  void freeze_disk(std::chrono::nanoseconds delay) { models_->freeze_disk(delay); }
  void give_up(const core::error& why);
  void freeze(std::chrono::nanoseconds delay);
  /// Sends all actors the request to end; is_at_rest() returns true once they have ended.
  void dismiss();
  [[nodiscard]] bool is_at_rest() const { return models_.use_count() == 1; }
  [[nodiscard]] bool has_failed_by_fault() const { return models_->faults.front().struck(); }

 private:
  void furnish(actors::rank_parts& x, uint32_t rank, const company_setup& setup);

  caf::actor_system& system_;
  actors::sim_scheduler& clock_;
  const plans_by_choice& plans_;
  std::shared_ptr<actors::modelled_world> models_ = std::make_shared<actors::modelled_world>();
  std::shared_ptr<actors::company> company_;
  std::shared_ptr<std::optional<actors::run_outcome>> answer_ = std::make_shared<std::optional<actors::run_outcome>>();
  std::vector<caf::actor> askers_;
  std::vector<uint64_t> collectives_;
};

}  // namespace troupe::sim
