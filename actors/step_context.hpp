// One run of one plan on one rank: the state that its lanes share while it runs. Each field names its writer; readers
// depend on the writer through the plan, so nothing here is locked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/meetings.hpp"
#include "actors/program.hpp"
#include "actors/verdict.hpp"
#include "data/batch.hpp"
#include "device/stream.hpp"
#include "kernels/compress/quantiser.hpp"
#include "plan/lane_order.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {

/// Start and end of an instruction, in core::now_ns; 0 until then. Written by its lane, read by any thread.
struct span {
  std::atomic<int64_t> start_ns{0}, end_ns{0};
};

class save_target;

/// The model's output before the loss, in fp32.
struct model_output {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// The settings of one run of a plan, equal on all ranks.
struct step_order {
  uint64_t run = 0;      ///< number of the run among all runs of any plan in this process, from 1
  uint64_t step = 0;     ///< number of optimizer steps before this one
  uint64_t applied = 0;  ///< number of updates applied before this step
  /// Static ranges of inputs after `applied` updates, in the order of job::chosen_compression::layers; null: there are
  /// none.
  std::shared_ptr<const std::vector<kernels::activation_range>> input_ranges{};
  std::vector<job::group_setting> settings;  ///< settings in this step, by optimizer group
  double loss_scale = 1;
  std::vector<uint64_t> collectives_before;  ///< number of collectives in earlier runs, by communicator; empty: none
  /// batch with which the run computes instead of the loader's (generation); may be null
  std::shared_ptr<const data::batch> given;
  /// Number of micro-batches of an evaluation, whose `step` is the first of them; the plan's further micro-batches are
  /// skipped. 0: as many as the plan has.
  uint32_t micros = 0;
  bool keeps_logits = false;  ///< true: an evaluation stores step_context::logits
  std::string output{};       ///< name of the output to store, if a host's last unit has several; empty: the only one
  bool computes_loss = true;  ///< false: an evaluation computes outputs only
  std::shared_ptr<save_target> save;  ///< the save that receives the states, in plans that save
  /// Number of times that states were loaded into this session; a load drops state that is kept over steps.
  uint64_t loads = 0;

  [[nodiscard]] uint64_t before(uint32_t communicator) const {
    return collectives_before.empty() ? 0 : collectives_before[communicator];
  }
  /// Returns the identity of a collective instruction in this run.
  [[nodiscard]] meeting_id meeting_of(const plan::instruction& x) const {
    return {x.communicator, before(x.communicator) + x.sequence};
  }
};

/// Memory for the votes and norms of a rank's runs, used by one run after the other: a pool of the rank's memory, which
/// every lane and the fabric can access, or plain memory in simulations.
struct vote_memory {
  std::span<double> votes, norms;  ///< memory for the votes and for the norms of the rank's largest plan
  std::shared_ptr<const void> owner;
};
vote_memory plain_votes(const plan::rank_plan& p);  ///< returns plain memory for runs of `p`

struct step_context {  ///< one rank's run of one plan, shared by its lanes
  /// Creates a run whose votes and norms are zero at the begin, and whose ranges of inputs in the votes are empty
  /// (infinity, -infinity). `memory` belongs to the run until it has ended. Empty: plain memory.
  step_context(std::shared_ptr<const actors::program> what, const step_order& o, const job::scaling_rules& r,
               const vote_memory& memory = {});

  std::shared_ptr<const actors::program> program;
  step_order order;
  job::scaling_rules rules;
  /// Numbers of the vote of all ranks. The shard lane writes this rank's square sums, the compute lane its losses and
  /// ranges of inputs, the fabric lane the other ranks' numbers.
  std::span<double> votes;
  /// LAMB's square sums of weights, then of updates. The shard lane writes this rank's numbers, the fabric lane the
  /// other ranks' numbers.
  std::span<double> norms;
  /// Completion of each instruction's work on a device with memory of its own, by instruction id; written by the
  /// instruction's lane before the instruction ends (hands/device_lane.hpp).
  std::vector<device::event> work;
  /// Samples of each micro-batch, written by the rank before `load` ends
  std::vector<std::shared_ptr<const data::batch>> batches;
  /// Start and end of each instruction, by instruction id; written by the instruction's lane
  std::vector<span> spans;
  /// Intervals, by lane, in which a lane that starts instructions ahead was moving bytes, written by that lane; empty
  /// for other lanes, whose spans are such intervals.
  std::vector<telemetry::interval> worked[plan::num_lanes];
  /// [parameter * micro-batches + micro-batch]: true if the parameter's bucket holds a contribution. Written by the
  /// stages of the rank, which run in turns and may share a parameter. If one buffer of a bucket sums all micro-batches
  /// (plan_options::buckets_stay), only the element of the first micro-batch is used. Empty unless the plan trains.
  std::vector<bool> gradients_written;
  /// Outputs by micro-batch, if the order requests them and in generation; written by the compute lane
  std::vector<model_output> logits;
  std::atomic<uint64_t> num_ended{0};  ///< ended instructions of all lanes: shows that the run makes progress
  std::atomic<bool> aborted{false};    ///< true: lanes start nothing more; set by the rank

  [[nodiscard]] const plan::rank_plan& plan() const { return *program->plan; }
  /// Returns the number of micro-batches that are computed; the plan's further ones are skipped.
  [[nodiscard]] uint32_t micros() const { return order.micros > 0 ? order.micros : plan().options().accumulation; }

  /// Returns the vote's result; call only after `vote` has ended. The first caller computes it, in block order.
  const verdict& decide();
  /// True if an instruction with this guard acts; call only after `vote` has ended.
  bool acts(plan::guard g);
  /// Returns the factor on gradients if the step does not clip; known before the vote.
  [[nodiscard]] double unclipped_scale() const;

 private:
  std::shared_ptr<const void> memory_;  // owner of the memory of `votes` and `norms`
  std::once_flag once_;
  verdict verdict_;
};

}  // namespace troupe::actors
