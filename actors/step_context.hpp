// State of one run of one plan on one rank, which the rank's lanes share while it runs. Each field names its writer. A
// plan makes every reader depend on the writer, so no field is locked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "actors/memberships.hpp"
#include "actors/program.hpp"
#include "actors/verdict.hpp"
#include "data/batch.hpp"
#include "device/stream.hpp"
#include "job/step/step_rules.hpp"
#include "kernels/compress/quantiser.hpp"
#include "plan/lane_order.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {

/// Times (core::now_ns) at which an instruction started and ended; 0 until it has. Written by the instruction's lane,
/// read by any thread.
struct span {
  std::atomic<int64_t> start_ns{0}, end_ns{0};
};

class save_target;

/// The model's output before the loss, in fp32.
struct model_output {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// The outputs of the model that a run of an evaluation stores in step_context::logits: none, the scores before the
/// loss, or the logarithm of the probability of each input's next token.
enum class kept_outputs : uint8_t { none, scores, log_probabilities };

/// Options of one run of a plan, in addition to the number of the step.
struct run_wish {
  /// Batches that the run uses in place of the loader's, [micro-batch * data positions + data position]; one batch: all
  /// ranks use it in every micro-batch. Empty: the loader's.
  std::vector<std::shared_ptr<const data::batch>> given{};
  /// Number of samples of a training step on `given` batches of the host program, by which the run's position in its
  /// data advances.
  uint64_t own_samples = 0;
  /// Number of micro-batches of an evaluation; the plan's further micro-batches are skipped, and `step` is the number
  /// of the first. 0: as many as the plan has.
  uint32_t micros = 0;
  kept_outputs keeps = kept_outputs::none;  ///< what an evaluation stores in step_context::logits
  /// Evaluations of a host program's model: name of the output of its last unit that is stored in step_context::logits;
  /// empty: the unit has one output only
  std::string output{};
  bool computes_loss = true;  ///< false: an evaluation computes outputs only

  /// Returns the batch of `given` for a micro-batch of a data position, in a run of `micros` micro-batches; null if
  /// there is none.
  [[nodiscard]] std::shared_ptr<const data::batch> given_for(uint32_t micro, uint32_t position, uint32_t micros) const {
    if (given.size() <= 1) return given.empty() ? nullptr : given.front();
    const uint64_t at = uint64_t{micro} * (given.size() / micros) + position;
    return at < given.size() ? given[at] : nullptr;
  }
};

/// The order for one run of a plan: its settings, equal on all ranks.
struct step_order : run_wish {
  uint64_t run = 0;      ///< number of the run among all runs of any plan in this process, from 1
  uint64_t step = 0;     ///< number of optimizer steps before this one
  uint64_t applied = 0;  ///< number of updates applied before this step
  /// Ranges of the layers' inputs that were measured in earlier steps and by which inputs are quantised, in the order
  /// of job::chosen_compression::layers; null: there are none.
  std::shared_ptr<const std::vector<kernels::activation_range>> input_ranges{};
  std::vector<job::group_setting> settings;  ///< settings such as the learning rate in this step, by optimizer group
  double loss_scale = 1;
  std::vector<uint64_t> collectives_before;  ///< number of collectives in earlier runs, by communicator
  std::shared_ptr<save_target> save;         ///< the save that receives the states, in plans that save
  /// Number of times that states were loaded into this session. When it changes, lanes drop state that they keep from
  /// step to step.
  uint64_t loads = 0;

  [[nodiscard]] uint64_t before(uint32_t communicator) const {
    return collectives_before.empty() ? 0 : collectives_before[communicator];
  }
  /// Returns the identity of a collective instruction in this run.
  [[nodiscard]] collective_id collective_of(const plan::instruction& x) const {
    return {x.communicator, before(x.communicator) + x.sequence};
  }
};

/// Memory for the numbers that a rank's runs exchange, the votes and LAMB's norms, reused by each run: a pool of the
/// rank's memory, which every lane and the fabric can access, or ordinary memory in simulations.
struct vote_memory {
  std::span<double> votes, norms;  ///< memory for the votes and for the norms of the rank's largest plan
  std::shared_ptr<const void> owner;
};
vote_memory plain_votes(const plan::rank_plan& p);  ///< returns newly allocated ordinary memory for runs of `p`

struct step_context {  ///< one rank's run of one plan, shared by its lanes
  /// Creates the state of a run, with votes and norms of zero and empty ranges of inputs (infinity, -infinity). The run
  /// uses `memory` until it has ended; if `memory` is empty, the constructor allocates ordinary memory.
  step_context(std::shared_ptr<const actors::program> what, const step_order& o, const job::scaling_rules& r,
               const vote_memory& memory = {});

  std::shared_ptr<const actors::program> program;
  step_order order;
  job::scaling_rules rules;
  /// The numbers that all ranks exchange in the vote. The shard lane writes this rank's square sums, the compute lane
  /// its losses and ranges of inputs, the fabric lane the numbers of the other ranks.
  std::span<double> votes;
  /// Square sums per block that LAMB needs: first those of weights, then those of update directions. The shard lane
  /// writes this rank's numbers, the fabric lane those of the other ranks.
  std::span<double> norms;
  /// [instruction id]: event that marks the end of the instruction's work on a device with memory of its own; written
  /// by the instruction's lane before the instruction ends (hands/device_lane.hpp). Empty in a job on the CPU.
  std::vector<device::event> work;
  /// [micro-batch]: its samples, written by the rank before the instruction `load` ends
  std::vector<std::shared_ptr<const data::batch>> batches;
  /// Start and end of each instruction, by instruction id; written by the instruction's lane
  std::vector<span> spans;
  /// [lane]: intervals in which a lane that starts instructions before earlier ones have ended (fabric, io) was moving
  /// bytes, written by that lane. Empty for other lanes, which work during the whole span of an instruction.
  std::vector<telemetry::interval> worked[plan::num_lanes];
  /// [parameter * number of micro-batches + micro-batch]: true if backward has written the parameter's gradient to its
  /// bucket. Written by the pipeline stages of the rank, which run in turns and may share a parameter. If one buffer of
  /// a bucket sums all micro-batches (plan_options::buckets_stay), only the element of micro-batch 0 is used. Empty
  /// unless the plan trains.
  std::vector<bool> gradients_written;
  /// [micro-batch]: the model's output, if the order requests it or the plan generates; written by the compute lane
  std::vector<model_output> logits;
  std::atomic<uint64_t> num_ended{0};  ///< number of ended instructions of all lanes, by which other ranks see progress
  std::atomic<bool> aborted{false};    ///< true: lanes start no further instruction; set by the rank actor

  [[nodiscard]] const plan::rank_plan& plan() const { return *program->plan; }
  /// Returns the number of micro-batches that the run computes; those beyond it in the plan are skipped.
  [[nodiscard]] uint32_t micros() const { return order.micros > 0 ? order.micros : plan().options().accumulation; }

  /// Returns the result of the vote; call only after the instruction `vote` has ended. The first caller computes it,
  /// summing in the order of blocks.
  const verdict& decide();
  /// True if an instruction with guard `g` acts under the result of the vote; call only after the instruction `vote`
  /// has ended, unless `g` is plan::guard::always.
  bool acts(plan::guard g);
  /// Returns the factor that updates multiply gradients by if the step does not clip; known before the vote.
  [[nodiscard]] double unclipped_scale() const;

 private:
  std::shared_ptr<const void> memory_;  // owner of the memory of `votes` and `norms`
  std::once_flag once_;
  verdict verdict_;
};

}  // namespace troupe::actors
