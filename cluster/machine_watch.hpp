// Tracks for the supervisor of a job which machines are connected, silent, replaced or left out. Owns these states and
// the time limits for a silent agent; leaves processes and terms to supervision.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/supervised_job.hpp"
#include "core/error.hpp"

namespace troupe::cluster {

/// Tracks the state of each machine of a job. Machine 0 is the supervisor's own, has no agent and is never silent. Used
/// by one thread.
class machine_watch {
 public:
  /// Watches the machines of `job`, which must outlive this object.
  explicit machine_watch(const supervised_job& job);

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(all_.size()); }
  [[nodiscard]] bool is_there(uint32_t machine) const { return all_[machine].is_there; }

  /// Handles the agent of `machine` that has joined at `now_ns`. Returns why the machine must be left out for good;
  /// nothing if it may take part.
  std::optional<core::error> join(uint32_t machine, int64_t now_ns);
  /// Handles the loss of the agent of `machine`. `comes_back`: false if the agent was ordered to end.
  void part(uint32_t machine, bool comes_back);
  /// Leaves a machine out of the run because of `why`. The machine may join again until it was left out
  /// times_left_out_max times.
  void leave_out(uint32_t machine, core::error why);
  /// Records a message from the agent of `machine`. Returns true if the machine had been silent.
  bool hear(uint32_t machine, int64_t now_ns);

  /// True if the agent has been quiet for so long that the state of its processes is unknown.
  [[nodiscard]] bool is_silent(uint32_t machine, int64_t now_ns) const;
  /// True if the agent of `machine` has been quiet for so long that the supervisor sends no more beats to the processes
  /// of `machine`.
  [[nodiscard]] bool misses_beats(uint32_t machine, int64_t now_ns) const;
  /// Decides whether a machine is lost: returns how long its agent has been silent, in nanoseconds, if that is longer
  /// than cluster.lost_after; nothing otherwise. `was_away`: the supervisor itself did not run, so the time counts
  /// from now.
  std::optional<int64_t> lost_for_ns(uint32_t machine, int64_t now_ns, bool was_away);

  /// Returns the machines that have processes with ranks at first and are not connected, except machines that were told
  /// to end and machines that were lost before this machine led the job (supervised_job::lost).
  [[nodiscard]] std::vector<uint32_t> awaited() const;
  /// True if a machine that could lead the job is missing, or so quiet that it is about to be lost.
  [[nodiscard]] bool misses_any(int64_t now_ns) const;

  /// True if `machine` is marked as replaced: its processes get ranks again only if too few other processes run.
  [[nodiscard]] bool rests(uint32_t machine) const { return all_[machine].rests; }
  void let_rest(uint32_t machine) { all_[machine].rests = true; }
  /// Unmarks all machines that are marked as replaced, so that their processes may get ranks again; returns them.
  std::vector<uint32_t> wake();

 private:
  struct machine {
    bool is_there = false;
    int64_t last_contact_ns = 0;  // time of the last message of its agent
    bool rests = false;
    bool was_let_go = false;  // true: the machine's agent was told to end, so the job does not wait for the machine
    uint32_t times_left_out = 0;
    core::error lacks{};  // reason why the machine was last left out of a term
  };
  [[nodiscard]] bool has_only_spares(uint32_t machine) const;

  const supervised_job& job_;
  std::vector<machine> all_;
};

}  // namespace troupe::cluster
