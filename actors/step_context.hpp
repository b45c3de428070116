// One run of one plan on one rank: the state that its lanes share while it runs. Each field says who writes it;
// readers depend on the writer through the plan, so nothing here is locked.
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
#include "data/batch.hpp"
#include "device/stream.hpp"
#include "job/step_rules.hpp"
#include "kernels/compress/quantiser.hpp"
#include "plan/lane_order.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {

/// When an instruction was started and ended, in core::now_ns; 0 until then. Written by its lane, read by any thread.
struct span {
  std::atomic<int64_t> start_ns{0}, end_ns{0};
};

/// The vote's decision; the same on every rank.
struct verdict {
  double loss = 0;            ///< mean over the global batch
  double square_sum = 0;      ///< of the scaled gradient sums
  double grad_norm = 0;       ///< of the mean gradient; not finite on overflow
  bool overflow = false;      ///< the gradient has a NaN or an infinity
  bool skipped = false;       ///< overflow, and the precision's rule is to skip such a step
  bool clipped = false;       ///< the norm is so far above its limit that the factor below is another one
  double gradient_scale = 1;  ///< factor of gradients in `update`; masters of fp32 take it rounded to theirs
  std::vector<kernels::value_range<double>> input_ranges{};  ///< [calibrated layer]: of all ranks and micro-batches
  [[nodiscard]] plan::branch taken() const {
    return skipped ? plan::branch::skipped : clipped ? plan::branch::clipped : plan::branch::not_skipped;
  }
};

class save_target;

/// What the model puts out before the loss, in fp32.
struct model_output {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// The order for a step: equal on all ranks.
struct step_order {
  uint64_t run = 0;      ///< counts every run of any plan in this process, from 1
  uint64_t step = 0;     ///< optimizer steps before this one
  uint64_t applied = 0;  ///< updates applied before this one
  /// [job::chosen_compression::layers]: static ranges of inputs, as those updates have left them; null: there are none.
  std::shared_ptr<const std::vector<kernels::activation_range>> input_ranges{};
  std::vector<job::group_setting> settings;  ///< [optimizer group]
  double loss_scale = 1;
  std::vector<uint64_t> collectives_before;  ///< [communicator]: in earlier runs; empty: none
  std::shared_ptr<const data::batch> given;  ///< instead of the loader's (generation); may be null
  /// Of an evaluation, whose `step` is the first micro-batch: so many follow each other from there, and the rest of the
  /// plan's are passed over. 0: as many as the plan has.
  uint32_t micros = 0;
  bool keeps_logits = false;          ///< of an evaluation: step_context::logits
  std::string output{};               ///< which of them, where a host's last unit puts out several; empty: the only one
  bool computes_loss = true;          ///< false: an evaluation of outputs alone
  std::shared_ptr<save_target> save;  ///< of plans that save
  uint64_t loads = 0;  ///< how often states were loaded into this session; state kept over steps is dropped then

  [[nodiscard]] uint64_t before(uint32_t communicator) const {
    return collectives_before.empty() ? 0 : collectives_before[communicator];
  }
  /// Of a collective instruction of this run.
  [[nodiscard]] meeting_id meeting_of(const plan::instruction& x) const {
    return {x.communicator, before(x.communicator) + x.sequence};
  }
};

/// Where the votes and norms of a rank's runs lie, one run after the other: a pool of the rank's memory, which every
/// lane and the fabric reach, or plain memory in simulations.
struct vote_memory {
  std::span<double> votes, norms;  ///< as many as any plan of the rank needs
  std::shared_ptr<const void> owner;
};
vote_memory plain_votes(const plan::rank_plan& p);  ///< of its own, for runs of `p`

struct step_context {  ///< one rank's run of one plan, shared by its lanes
  /// Votes and norms begin as zeros; `memory` belongs to the run until it has ended. Empty: plain memory.
  step_context(std::shared_ptr<const actors::program> what, const step_order& o, const job::scaling_rules& r,
               const vote_memory& memory = {});

  std::shared_ptr<const actors::program> program;
  step_order order;
  job::scaling_rules rules;
  std::span<double> votes;  ///< shard lane: square sums; compute: losses; fabric: the others'
  std::span<double> norms;  ///< shard lane: square sums of weights, then of updates; fabric: the others'
  /// [id] The end of its work on a device with memory of its own, by its lane before it ends; hands/device_lane.hpp.
  std::vector<device::event> work;
  std::vector<std::shared_ptr<const data::batch>> batches;  ///< [micro], by the rank before `load` ends
  std::vector<span> spans;                                  ///< [id], by its lane
  /// [lane]: when a lane that starts ahead really moved bytes, written by that lane; for other lanes their spans tell.
  std::vector<telemetry::interval> worked[plan::num_lanes];
  /// [parameter * micro-batches + micro] Its bucket holds a contribution; by the stages of the rank, which take turns
  /// and may share a parameter. Of buckets that stay for all micro-batches the first place counts. Where the plan
  /// trains.
  std::vector<bool> gradients_written;
  std::vector<model_output> logits;    ///< [micro], where the order keeps them and in generation, by compute
  std::atomic<uint64_t> num_ended{0};  ///< instructions of all lanes: shows that the run is alive
  std::atomic<bool> aborted{false};    ///< by the rank: start nothing more

  [[nodiscard]] const plan::rank_plan& plan() const { return *program->plan; }
  /// Micro-batches that are computed; those of the plan behind them are passed over.
  [[nodiscard]] uint32_t micros() const { return order.micros > 0 ? order.micros : plan().options().accumulation; }

  /// The vote's result; call only after `vote` has ended. The first caller computes it, in block order.
  const verdict& decide();
  /// Whether an instruction with this guard acts; call only after `vote` has ended.
  bool acts(plan::guard g);
  /// The vote's factor of gradients if it clips none: known before the vote.
  [[nodiscard]] double unclipped_scale() const;

 private:
  std::shared_ptr<const void> memory_;  // of votes and norms
  std::once_flag once_;
  verdict verdict_;
};

/// Pure: the factor that turns the sum of all contributions into a mean.
double factor_of_mean(const plan::rank_plan& p, double loss_scale, const job::scaling_rules& rules);

/// Pure: the verdict of `votes`, of which the losses of the first `micros` micro-batches count; 0: all. Source: zero.md
/// 2.6 (global norm, clip), with one factor applied once.
verdict judge(const plan::rank_plan& p, std::span<const double> votes, double loss_scale,
              const job::scaling_rules& rules, uint32_t micros = 0);

}  // namespace troupe::actors
