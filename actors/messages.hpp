// Declares all messages between actors. docs/messages.md has one row for each, and a test compares that page with this
// file. Messages carry numbers and handles; bulk data are passed through shared memory. A message with a pointer is
// local to its process: sending it over the network fails. Messages contain no floating-point numbers, which CAF 0.17
// corrupts on the network; the objects to which local messages point may.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/caf.hpp"
#include "actors/record_queue.hpp"
#include "actors/verdict.hpp"
#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "plan/plan_choice.hpp"
#include "telemetry/spans.hpp"

namespace troupe::data {
struct batch;
}

namespace troupe::telemetry {
struct metric_values;
struct run_end;
struct run_records;
struct step_values;
struct validation_values;
}  // namespace troupe::telemetry

namespace troupe::actors {

struct rank_report;
struct step_context;
struct step_order;

/// The result of a run of a plan, as the supervisor reports it; `result` is equal on all ranks.
struct run_outcome {
  uint64_t run = 0;
  plan::plan_choice which = plan::plan_choice::train;
  verdict result;
  bool skipped = false;
  bool save_asked = false;                          ///< true: `save_now` has arrived since the last training step
  std::shared_ptr<const core::error> failure;       ///< error that ended the run; null if it ended well
  std::shared_ptr<std::vector<rank_report>> ranks;  ///< reports of the ranks, in rank order; null after a failure
};

// ---- Messages that run a plan, from the session down to the ranks and back

/// session -> supervisor, supervisor -> node_agent, node_agent -> rank: the receiver must run a plan once.
struct run_plan {
  plan::plan_choice which = plan::plan_choice::train;
  std::shared_ptr<const step_order> order;
};
/// rank -> node_agent: the rank has completed the run without an error.
struct rank_ended {
  uint32_t rank = 0;
  std::shared_ptr<step_context> context;
};
/// node_agent -> supervisor: all ranks of the process have completed the run without an error.
struct node_ended {
  uint64_t run = 0;
  std::shared_ptr<std::vector<rank_report>> ranks;
};
/// lane -> rank -> node_agent -> supervisor: the sender cannot continue the run; the supervisor treats the first such
/// message as the root cause.
struct run_failed {
  core::error_kind kind = core::error_kind::bug;
  std::string text;
};
/// supervisor -> node_agent -> rank -> lane: the receiver must stop the current run.
struct give_up {
  core::error_kind kind = core::error_kind::stopped;
  std::string text;
};

/// the caller of the session should save after the current step; the step's report passes this on
/// (step_report::save_asked).
struct save_now {};

// ---- Messages within a rank, to its lanes and between them

/// rank -> lane: a run begins; the lane may start as many of its instructions as `window` says.
struct begin_run {
  std::shared_ptr<step_context> context;
  uint32_t window = 0;
};
/// rank -> lane: the lane may now have started `window` of the run's instructions, more than before.
struct extend_window {
  uint64_t run = 0;
  uint32_t window = 0;
};
/// lane or rank -> lane: an instruction that the receiver waits for has ended.
struct instruction_ended {
  uint64_t run = 0;
  uint32_t id = 0;
};
/// lane -> rank: `num_ended` of the lane's instructions have ended so far in this run; sent after every 16
/// (progress_batch) and at the end.
struct lane_progress {
  uint64_t run = 0;
  uint32_t seat = 0;
  uint32_t num_ended = 0;
};
/// fabric or timer -> lane: the lane must call `executor::advance(sequence)`.
struct wake {
  uint64_t sequence = 0;
};

// ---- Messages to and from the loader, which cuts micro-batches out of the data

/// rank -> loader: requests micro-batch `micro` of step `step`. `rank`: the rank's position among the ranks that train
/// on different samples.
struct next_batch {
  uint64_t run = 0, step = 0;
  uint32_t micro = 0, rank = 0;
  plan::plan_choice which = plan::plan_choice::train;
};
/// loader -> rank: the requested micro-batch.
struct batch_ready {
  uint64_t run = 0;
  uint32_t micro = 0;
  std::shared_ptr<const data::batch> batch;
};
/// loader -> itself: the loader must cut micro-batch `next`, which no rank has requested yet.
struct prepare_batch {
  next_batch next;
};

/// session -> loader: from now on step `first_step` begins at sample `first_sample`, whose number does not count
/// samples that are left out; the loader drops the micro-batches that it has prepared.
struct move_data {
  uint64_t first_step = 0, first_sample = 0;
  std::vector<core::sample_range> left_out;
};

// ---- Messages to telemetry, and messages that a rank's timer sends

/// session -> telemetry: measurements of a training step, and the spans (start and end) of its instructions. `place`: a
/// reserved entry of the record_queue, which limits the number of records that telemetry has not handled.
struct record_step {
  std::shared_ptr<const telemetry::step_values> values;
  std::shared_ptr<const std::vector<telemetry::rank_spans>> spans;
  record_queue::place place;
};
/// session -> telemetry: the loss of an evaluation on the validation part of the data.
struct record_validation {
  std::shared_ptr<const telemetry::validation_values> values;
  record_queue::place place;
};
/// session -> telemetry: values that the host program has recorded under names of its own.
struct record_metrics {
  std::shared_ptr<const telemetry::metric_values> values;
  record_queue::place place;
};
/// session -> telemetry: the run has gone back to the state after `step` steps and `global_samples` samples; the
/// records of later steps are removed from the curves.
struct go_back {
  uint64_t step = 0, global_samples = 0;
};
/// session -> telemetry: the run has ended, and telemetry must write its final files. The sender sends no further
/// record.
struct close_records {
  std::shared_ptr<const telemetry::run_end> end;
  uint64_t num_dropped = 0;  ///< number of records that were dropped because the writer's queue was full
};
/// telemetry -> session: each file has been written, or a warning about it has been reported.
struct records_closed {
  std::shared_ptr<const telemetry::run_records> records;
};
/// rank -> itself, by a timer: the rank checks whether its lanes still end instructions.
struct look_around {
  uint64_t run = 0;
};

}  // namespace troupe::actors

namespace troupe::core {

template <class I>
typename I::result_type inspect(I& f, sample_range& x) {
  return f(x.begin, x.end);
}

}  // namespace troupe::core

namespace troupe::actors {

#define TROUPE_LOCAL_MESSAGE(type)                               \
  template <class Inspector>                                     \
  typename Inspector::result_type inspect(Inspector& f, type&) { \
    return refuse_wire(f);                                       \
  }
TROUPE_LOCAL_MESSAGE(run_outcome)
TROUPE_LOCAL_MESSAGE(run_plan)
TROUPE_LOCAL_MESSAGE(rank_ended)
TROUPE_LOCAL_MESSAGE(node_ended)
TROUPE_LOCAL_MESSAGE(begin_run)
TROUPE_LOCAL_MESSAGE(batch_ready)
TROUPE_LOCAL_MESSAGE(record_step)
TROUPE_LOCAL_MESSAGE(record_validation)
TROUPE_LOCAL_MESSAGE(record_metrics)
TROUPE_LOCAL_MESSAGE(close_records)
TROUPE_LOCAL_MESSAGE(records_closed)
#undef TROUPE_LOCAL_MESSAGE

template <class I>
typename I::result_type inspect(I& f, run_failed& x) {
  return f(x.kind, x.text);
}
template <class I>
typename I::result_type inspect(I& f, give_up& x) {
  return f(x.kind, x.text);
}
template <class I>
typename I::result_type inspect(I& f, save_now&) {
  return f();
}
template <class I>
typename I::result_type inspect(I& f, extend_window& x) {
  return f(x.run, x.window);
}
template <class I>
typename I::result_type inspect(I& f, instruction_ended& x) {
  return f(x.run, x.id);
}
template <class I>
typename I::result_type inspect(I& f, lane_progress& x) {
  return f(x.run, x.seat, x.num_ended);
}
template <class I>
typename I::result_type inspect(I& f, wake& x) {
  return f(x.sequence);
}
template <class I>
typename I::result_type inspect(I& f, next_batch& x) {
  return f(x.run, x.step, x.micro, x.rank, x.which);
}
template <class I>
typename I::result_type inspect(I& f, prepare_batch& x) {
  return f(x.next);
}
template <class I>
typename I::result_type inspect(I& f, move_data& x) {
  return f(x.first_step, x.first_sample, x.left_out);
}
template <class I>
typename I::result_type inspect(I& f, go_back& x) {
  return f(x.step, x.global_samples);
}
template <class I>
typename I::result_type inspect(I& f, look_around& x) {
  return f(x.run);
}

}  // namespace troupe::actors

// Troupe's type ids begin 1000 after first_custom_type_id, so that the first thousand are free for an embedding
// program's own messages.
CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::first_custom_type_id + 1000)
CAF_ADD_TYPE_ID(troupe, (troupe::actors::run_failed))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::give_up))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::extend_window))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::instruction_ended))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::lane_progress))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::wake))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::next_batch))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::prepare_batch))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::look_around))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::save_now))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::move_data))
CAF_ADD_TYPE_ID(troupe, (troupe::actors::go_back))
CAF_END_TYPE_ID_BLOCK(troupe)

// Local types are not passed to add_message_types, because they stay inside the process.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_local, caf::first_custom_type_id + 1100)
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::run_outcome))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::run_plan))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::rank_ended))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::node_ended))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::begin_run))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::batch_ready))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::record_step))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::record_validation))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::record_metrics))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::close_records))
CAF_ADD_TYPE_ID(troupe_local, (troupe::actors::records_closed))
CAF_END_TYPE_ID_BLOCK(troupe_local)

namespace troupe::actors {

using caf::reacts_to;
using caf::replies_to;
using caf::typed_actor;

using lane_actor = typed_actor<reacts_to<begin_run>, reacts_to<extend_window>, reacts_to<instruction_ended>,
                               reacts_to<wake>, reacts_to<give_up>>;
using rank_actor = typed_actor<reacts_to<run_plan>, reacts_to<lane_progress>, reacts_to<run_failed>, reacts_to<give_up>,
                               reacts_to<look_around>>;
using node_agent_actor =
    typed_actor<reacts_to<run_plan>, reacts_to<rank_ended>, reacts_to<run_failed>, reacts_to<give_up>>;
using supervisor_actor = typed_actor<replies_to<run_plan>::with<run_outcome>, reacts_to<node_ended>,
                                     reacts_to<run_failed>, reacts_to<give_up>, reacts_to<save_now>>;
using loader_actor =
    typed_actor<replies_to<next_batch>::with<batch_ready>, reacts_to<prepare_batch>, reacts_to<move_data>>;
using telemetry_actor = typed_actor<reacts_to<record_step>, reacts_to<record_validation>, reacts_to<record_metrics>,
                                    reacts_to<go_back>, replies_to<close_records>::with<records_closed>>;

}  // namespace troupe::actors
