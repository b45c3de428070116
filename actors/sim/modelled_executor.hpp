// Executors of simulated lanes: they compute nothing and move only the numbers of the vote, advance the virtual clock
// by the times that the cost model predicts, log each start and end, and fail where an injected fault requires it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/executor.hpp"
#include "actors/memberships.hpp"
#include "actors/sim/fault.hpp"
#include "fabric/communicator.hpp"
#include "plan/choose/cost.hpp"
#include "plan/layout/pieces.hpp"

namespace troupe::actors {

/// Limit of the gradient norm in simulated runs that clip: larger than the norms of all runs that must not clip.
inline constexpr double modelled_norm_limit = 1e3;

/// A fault that a simulation injects, and whether it has happened.
struct armed_fault {
  sim_fault what;
  int64_t struck_ns = -1;  ///< virtual time at which the fault happened; -1: it has not happened
  bool due = false;        ///< true: the instruction with which the fault happens has started
  [[nodiscard]] bool struck() const { return struck_ns >= 0; }
};

/// The pieces of collectives, computed once for all ranks that take part in them. Used by one thread.
class shared_pieces {
 public:
  /// Returns the pieces of a collective of the plan, as job::pieces_of() lists them. They stay where they are.
  std::span<const fabric::piece> of(const plan::rank_plan& p, const plan::instruction& x);
  /// Returns the pieces of the vote of the plan's job.
  const std::vector<plan::moved_piece>& vote(const plan::rank_plan& p);

 private:
  /// All that the pieces of an instruction depend on, besides the job's layout: kind, use, subject, segment, piece,
  /// whether it reads the second copy of parameters, repetition, communicator and moved bytes.
  using collective =
      std::tuple<plan::kind, plan::use, uint32_t, uint32_t, uint32_t, bool, plan::repetition, uint32_t, uint64_t>;
  struct of_layout {
    explicit of_layout(std::shared_ptr<const plan::job_layout> l) : layout(std::move(l)), all(*layout) {}
    std::shared_ptr<const plan::job_layout> layout;
    plan::collective_pieces all;
    std::map<collective, std::vector<fabric::piece>> known;
    std::optional<std::vector<plan::moved_piece>> vote;
  };
  of_layout& entry(const plan::rank_plan& p);

  std::map<const plan::job_layout*, of_layout> layouts_;
};

/// State that all simulated lanes share; used by one thread.
struct modelled_world {
  plan::cost_model costs;
  double noise = 0;  ///< noise of the times: an instruction takes [1, 1 + noise) times its predicted time
  uint64_t seed = 0;
  std::vector<armed_fault> faults;
  uint64_t overflow_in_run = 0;  ///< number of the run whose gradient is not finite; 0: none
  uint64_t clip_in_run = 0;      ///< number of the run whose gradient norm is above `modelled_norm_limit`; 0: none
  std::function<int64_t()> now_ns;
  int64_t disk_free_ns = 0;          ///< time at which the disk has written all data handed to it
  int64_t disk_frozen_until_ns = 0;  ///< no request to the disk ends before this time
  /// True: the blocks that are handed to the disk at one moment share it, and all are written when the last one is.
  bool writes_together = false;
  int64_t disk_moment_ns = -1;  ///< with writes_together: latest moment at which blocks were handed to the disk
  std::vector<int64_t>
      written_at_ns;  ///< with writes_together: time at which the blocks of each such moment are written
  /// [rank]: number of ranks that its lanes act for, its own among them; empty: each acts for itself alone.
  std::vector<uint32_t> acts_for;
  std::vector<sim_event> log;
  shared_pieces pieces;

  void note(const step_context& c, uint32_t id, bool end) {
    log.push_back({c.order.run, now_ns(), c.plan().rank, id, end});
  }
  void arm(sim_fault f) { faults.push_back({.what = std::move(f)}); }
  /// Returns the fault of kind `kind` that happens at instruction `x` of the run `c`, and marks it as having happened;
  /// null: there is none.
  const sim_fault* strikes(sim_fault_kind kind, const step_context& c, const plan::instruction& x);
  void freeze_disk(std::chrono::nanoseconds delay);
  /// Hands a block, which takes `seconds` to write, to the disk for each of `blocks` ranks, with writes_together.
  /// Returns the number of this moment in `written_at_ns`, which is final once time has passed.
  size_t write_together(double seconds, uint32_t blocks);
  [[nodiscard]] uint32_t ranks_of(uint32_t rank) const { return acts_for.empty() ? 1 : acts_for[rank]; }
};

/// True if the lane's instructions wait for a disk.
constexpr bool asks_disk(plan::lane l) { return l == plan::lane::writer || l == plan::lane::io; }

/// Makes the executor of any lane of a rank but the fabric lane.
std::unique_ptr<executor> make_modelled_executor(std::shared_ptr<modelled_world> world);
/// Makes the executor of a fabric lane: posts collectives with the identities that production uses to any
/// communicators, but without memory, except for the numbers of the vote.
std::unique_ptr<executor> make_modelled_fabric_executor(std::shared_ptr<modelled_world> world,
                                                        memberships communicators);

}  // namespace troupe::actors
