// Owns the faults that a test puts into a simulated world: what happens, where, and at which moment. Which faults the
// modelled lanes know is in actors/sim/fault.hpp; fault.cpp translates.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/sim/sim.hpp"
#include "core/error.hpp"
#include "plan/plan_choice.hpp"
#include "sim/places.hpp"

namespace troupe::sim {

/// Plans, steps and hosts of a world, in which faults have their places and moments.
struct stage_of_faults {
  /// Plans by plan_choice: of each rank, or one of its class, whose instructions have the same names and places.
  const std::vector<actors::shared_rank_plans>& plans;
  const std::vector<plan::plan_choice>& steps;
  uint32_t ranks_per_host = 0;                ///< 0: all ranks are on host 0
  std::vector<uint32_t> hosts_of_ranks = {};  ///< [rank]: its host in a network; empty: `ranks_per_host` says
  [[nodiscard]] uint32_t ranks() const;
  /// Returns the layout of the job. Requires that a kind has plans.
  [[nodiscard]] const plan::job_layout& layout() const;
  /// Returns the communicators of the job, as the lower layer numbers them. Requires that a kind has plans.
  [[nodiscard]] const std::vector<plan::communicator>& communicators() const { return layout().communicators; }
  [[nodiscard]] uint32_t host_of(uint32_t rank) const {
    if (!hosts_of_ranks.empty()) return hosts_of_ranks[rank];
    return ranks_per_host == 0 ? 0 : rank / ranks_per_host;
  }
  [[nodiscard]] uint32_t hosts() const;
};

/// A fault of a simulated world; made by the functions below, such as `kill(rank{1}).in_step(2)`. Each function says
/// which moments its fault may have. A world refuses a fault whose place or moment it does not have.
class fault {
 public:
  enum class effect : uint8_t { kill, freeze, freeze_disk, slow, slow_disk, late, late_message, lose, full_disk, cut };
  using place = std::variant<std::monostate, rank, host, link>;

  fault(effect what, place where, std::string instruction = {})
      : effect_(what), place_(where), instruction_(std::move(instruction)) {}

  /// Chooses the step, counted from 1.
  [[nodiscard]] fault in_step(uint64_t number) const;
  /// Chooses the virtual time since the order of the first step.
  [[nodiscard]] fault at(std::chrono::nanoseconds time) const;
  /// Chooses the moment at which the fault's rank starts an instruction, named as in run.hpp: the first one that has
  /// the name, in the step that in_step() chooses, else in the first step with such an instruction.
  [[nodiscard]] fault when(std::string instruction) const;
  /// Chooses the rank of a fault that names an instruction.
  [[nodiscard]] fault on(rank where) const;

  [[nodiscard]] std::string describe() const;
  // Parts of the fault that a job of several processes reads (job_faults.hpp).
  [[nodiscard]] effect what() const { return effect_; }
  [[nodiscard]] const place& where() const { return place_; }
  [[nodiscard]] const std::string& instruction() const { return instruction_; }
  [[nodiscard]] std::optional<uint64_t> step() const { return step_; }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> time() const { return at_; }
  [[nodiscard]] bool has_instruction_as_moment() const { return !when_.empty(); }
  [[nodiscard]] std::chrono::nanoseconds lasts() const { return delay_; }
  /// True for a fault of the disk or of links that lasts for the whole run. Such a fault changes the costs of a world,
  /// by apply_to().
  [[nodiscard]] bool is_lasting() const;

  /// Returns the faults of ranks that this fault consists of. Errors (bad_input): a place, step or instruction that the
  /// world does not have; a moment that the fault cannot have.
  [[nodiscard]] core::result<std::vector<actors::sim_fault>> faults_in(const stage_of_faults& world) const;
  /// Changes the costs of the disk, or the links between hosts; `options.links` has one for each communicator. The
  /// errors are those of faults_in().
  core::result<void> apply_to(actors::sim_options& options, const stage_of_faults& world) const;

 private:
  friend fault freeze(rank where, std::chrono::nanoseconds time);
  friend fault freeze(host where, std::chrono::nanoseconds time);
  friend fault freeze_disk(std::chrono::nanoseconds time);
  friend fault slow(rank where, double factor);
  friend fault slow(host where, double factor);
  friend fault slow(link where, double factor);
  friend fault slow(std::string instruction, double factor);
  friend fault slow_disk(double factor);
  friend fault late(std::string instruction, std::chrono::nanoseconds time);
  friend fault late(link where, std::chrono::nanoseconds time);
  friend fault late_message(std::chrono::nanoseconds time);
  friend fault cut(link where, std::chrono::nanoseconds time);
  class translation;
  /// Returns the communicators that have members on both hosts of the fault's link.
  [[nodiscard]] std::vector<uint32_t> communicators_in(const stage_of_faults& world) const;

  effect effect_;
  place place_;
  std::string instruction_;  // the instruction that is slow, late or lost
  std::optional<uint64_t> step_;
  std::optional<std::chrono::nanoseconds> at_;
  std::string when_;
  std::optional<uint32_t> on_;
  double factor_ = 1;
  std::chrono::nanoseconds delay_{0};
};

/// The actor of a rank is killed, or those of all ranks of a host: the run ends with an error that names the rank. In a
/// step (the first one unless chosen), at a time, or, of a rank, when it starts an instruction.
fault kill(rank where);
fault kill(host where);
/// The actors of a rank, or of all ranks of a host, handle no message for this time; what has been started goes on.
/// Moments as of kill().
fault freeze(rank where, std::chrono::nanoseconds time);
fault freeze(host where, std::chrono::nanoseconds time);
/// No request to the disk, which all ranks share, ends for this time. In a step or at a time.
fault freeze_disk(std::chrono::nanoseconds time);
/// The compute and shard lanes of a rank, or of all ranks of a host, take `factor` times as long: in all steps, in a
/// step, or from a time on.
fault slow(rank where, double factor);
fault slow(host where, double factor);
/// The link between two hosts has `factor` times its latency and the fraction 1 / factor of its bandwidth, always.
fault slow(link where, double factor);
/// The instructions of a name take `factor` times as long: on all ranks that run them or on one, in all steps or in
/// one. Collectives and writes of checkpoints are refused: slow their link or the disk.
fault slow(std::string instruction, double factor);
/// The disk has `factor` times its latency and the fraction 1 / factor of its rates, always.
fault slow_disk(double factor);
/// The instructions of a name take this time more. Places, moments and refusals as of slow().
fault late(std::string instruction, std::chrono::nanoseconds time);
/// Every collective over the link between two hosts takes this time more.
fault late(link where, std::chrono::nanoseconds time);
/// Value of the time of cut() for a link that is never whole again.
inline constexpr std::chrono::nanoseconds for_ever = std::chrono::nanoseconds::max();
/// Nothing passes the link between two hosts for this time; collectives that were moving bytes go on afterwards. In a
/// step (the first one unless chosen) or at a time. A cut for ever is a stall in a world of one process.
fault cut(link where, std::chrono::nanoseconds time = for_ever);
/// Some message between two actors, which the seed draws, is late. In a step or at a time.
fault late_message(std::chrono::nanoseconds time);
/// An instruction never ends: the first one of the name, on one rank (the first one that runs it unless chosen), in one
/// step. For a collective: the part of this rank is lost. The run ends with an error that names the rank, after
/// world_options::stall_after or work_min.
fault lose(std::string instruction);
/// The first request of a rank to write to its disk fails because the disk is full: in a step, else in the first step
/// in which the rank writes.
fault full_disk(rank where);

}  // namespace troupe::sim
