// Calls: messages from the process that leads a term (time with the same processes) to the other processes, and their
// answers, both encoded as bytes. Every process has a whole session and computes by itself what a call does not
// contain: plans, loss scales. Owns the encoding alone; the session sends and executes calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/processes/link_traffic.hpp"
#include "actors/rank_report.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/left_out_steps.hpp"
#include "job/step/step_rules.hpp"
#include "plan/choose/cost.hpp"
#include "plan/layout/layout.hpp"
#include "plan/options.hpp"
#include "plan/plan_choice.hpp"

namespace troupe::actors {

/// Name of a parameter, and the name that it has in the checkpoint; none: the parameter keeps its values.
struct tensor_name {
  std::string parameter;
  std::optional<std::string> name;
};

/// The checkpoint that all processes load, and the options; fields with names of load_options have the same meaning.
struct wanted_load {
  std::string path;  ///< path of the checkpoint; empty: none is loaded
  std::optional<std::string> tag;
  std::string map;
  bool load_module_strict = true, load_optimizer_states = true, load_lr_scheduler_states = true;
  bool load_module_only = false;
  std::optional<bool> load_from_fp32_weights;
  bool pipeline_loading_checkpoint = false;
  uint64_t swap_batch_bytes = 0;
  bool fallback_to_previous = false, dequantise = false, changed_batch = false, changed_seed = false;
  bool changed_data = false;
  bool has_names = false;          ///< true: custom_load_fn was given; `names` has its result for each parameter
  std::vector<tensor_name> names;  ///< results of custom_load_fn, by parameter
  std::optional<std::vector<core::left_out_steps>> left_out;
};

/// The options of a training step. A message contains the options that passes may change; the configuration defines all
/// others.
struct chosen_passes {
  plan::plan_options of_step;
};

/// An entry of a schedule of passes that the host program has set, with the fields of scheduled_passes.
struct told_schedule {
  uint64_t step = 0;
  std::vector<std::string> passes;
  bool is_automatic = false;
};

/// Names a file that the leading process has just written into the folder of outputs, for which processes of other
/// machines look; an empty path: it could not write into that folder. Sent before the opening_call of a term (time with
/// the same processes) on several machines that write into one folder.
struct output_call {
  std::string path, content;
};

/// Describes how the receiver makes its plans for a new term (time with the same processes), and from where it loads
/// the states. The first call of a term, except for output_call.
struct opening_call {
  /// Cost model of the leading process, by which every process makes the same choices.
  plan::cost_model costs;
  wanted_load load;
  /// Options of the training step that the run has chosen since it began; nullopt: the configuration's passes apply.
  std::optional<chosen_passes> passes;
  std::optional<std::vector<told_schedule>> schedule;
};

/// A change of the name of a file or folder of saves in memory, from `from` to `to`; an empty `to`: it is removed.
struct kept_name {
  std::string from, to;
};

/// A batch of the host program's, or one that the leading process has made, as data::batch; the receiver computes the
/// orders of its inputs.
struct told_batch {
  uint64_t rows = 0, columns = 0;
  std::vector<int64_t> tokens;
  std::vector<uint64_t> samples;
  std::vector<int64_t> targets;
  std::vector<float> weights;
  double loss_factor = 1;
};

/// Orders the receiver to run a plan once on its ranks. The fields are the number of the run and its settings.
struct run_call {
  uint64_t run = 0, step = 0;
  plan::plan_choice which = plan::plan_choice::train;
  // The fields `micros` to `output` have the meaning of the fields of run_wish with these names.
  uint32_t micros = 0;
  kept_outputs keeps = kept_outputs::none;
  bool computes_loss = true;
  std::string output;
  std::vector<told_batch> given;  ///< batches of run_wish::given
  uint64_t own_samples = 0;       ///< as run_wish::own_samples
  uint32_t step_micros = 1;       ///< number of micro-batches of training steps
  // Settings of plans that save; unused by all other plans.
  bool saves_in_memory = false;
  std::string invitation, request;             ///< invitation and request of the save, encoded as in part_result.hpp
  bool early_updates = false;                  ///< true: training steps update parameters before the vote
  std::vector<job::group_setting> settings{};  ///< learning rates and other settings of the step, by optimizer group
};

/// Requests elements of a state (weights, a moment) of a rank; parameter and elements are numbered as in that rank's
/// own table.
struct read_call {
  uint32_t rank = 0, parameter = 0;
  plan::state_part part = plan::state_part::master;
  uint64_t first = 0, count = 0;
  core::dtype type = core::dtype::f32;
};
/// Orders the receiver to write elements of a state of a rank, which `where` selects as in a read_call.
struct write_call {
  read_call where;
  std::string bytes;
};
/// Changes names of files of saves in memory; has no answer.
struct names_call {
  std::vector<kept_name> names;
};

/// Sets the masks of all pruned modules, from the next run on; has no answer.
struct masks_call {
  std::vector<std::vector<uint8_t>> masks;  ///< bits of the masks, by pruned module, in the layout of pruning_masks
};
/// Sets the schedule of passes over the step plan, for the case that the receiver leads later; has no answer.
struct schedule_call {
  std::vector<told_schedule> entries;
};
/// Orders the receiver to check, between two steps, whether it can load a checkpoint, and to answer. Then a `go_call`,
/// which is answered as well, decides whether it loads the states.
struct load_call {
  wanted_load load;
};
struct go_call {
  bool goes_on = false;
};
/// Orders the receiver to move states of its ranks out of memory, as offload_request describes; the answer says how
/// many bytes.
struct offload_call {
  std::vector<std::string> include;
  plan::tier device = plan::tier::cpu;
  std::string nvme_path;
};
/// Orders the receiver to move offloaded states back into memory.
struct reload_call {
  bool now = true;
};
/// Requests the name (tag) under which the receiving process would save the states after `step` steps; the leading
/// process compares the names of all processes.
struct tag_call {
  uint64_t step = 0;
};
/// Reports that a checkpoint was committed whose files are on the disks of several machines. Contains the data about it
/// that each machine stores. Has no answer.
struct committed_call {
  std::string folder, manifest, latest;
  std::vector<std::string> save_ids;   ///< ids of all existing checkpoints, in hexadecimal digits
  std::vector<std::string> aside_ids;  ///< ids of checkpoints that were set aside, whose parts stay
  /// Text with one line for each file of the checkpoint: the file's name and the machine that wrote it.
  std::string writers;
};

using peer_call = std::variant<opening_call, run_call, read_call, write_call, names_call, masks_call, schedule_call,
                               load_call, go_call, offload_call, reload_call, tag_call, committed_call, output_call>;

/// Answer to a call between two steps: success with values, or a failure.
struct call_answer {
  bool failed = false;
  core::error_kind kind = core::error_kind::bug;
  std::string text;                           ///< reason, if the call failed; else the text that the call requested
  uint64_t moved_bytes = 0, freed_bytes = 0;  ///< bytes moved and freed by offload_call
};

/// Answer to a run_call: the reports of the process's ranks, and the peak bytes of activations of each rank.
struct run_answer {
  rank_reports reports;  ///< reports of this process's ranks, without their plans
  std::vector<uint64_t> peak_bytes;
  uint32_t machine = 0;
  /// Bytes that this process has received from other machines since its term began.
  uint64_t entered_bytes = 0;
  /// shift from this process's clock to the supervisor's clock; none: not measured yet
  std::optional<telemetry::clock_shift> clock{};
  /// Traffic of the links from processes of other machines to this one, since the process's term (time with the same
  /// processes) began.
  std::vector<link_traffic> links{};
};

std::string encode(const peer_call& call);
core::result<peer_call> decode_call(std::string_view bytes);
std::string encode(const run_answer& answer);
core::result<run_answer> decode_run_answer(std::string_view bytes);
std::string encode(const call_answer& answer);
core::result<call_answer> decode_call_answer(std::string_view bytes);

}  // namespace troupe::actors
