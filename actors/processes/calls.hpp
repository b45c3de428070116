// Messages from the process that leads a term to the others, and their answers, both encoded as bytes. Every process
// has the whole session and computes values that a call does not contain: plans, learning rates, loss scales. Owns the
// encoding alone; the session sends and executes calls.
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
#include "plan/choose/cost.hpp"
#include "plan/layout/layout.hpp"
#include "plan/options.hpp"
#include "plan/plan_choice.hpp"

namespace troupe::actors {

/// The checkpoint's name of a parameter; none: the parameter keeps its values.
struct tensor_name {
  std::string parameter;
  std::optional<std::string> name;
};

/// The checkpoint that all processes load. Fields with the names of load_options have the same meaning.
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
  bool has_names = false;          ///< custom_load_fn was given: the leading process has called it for all parameters
  std::vector<tensor_name> names;  ///< names that custom_load_fn returned for the parameters
  std::optional<std::vector<core::left_out_steps>> left_out;
};

/// Options of a training step that passes have changed; the configuration defines all others.
struct chosen_passes {
  bool recompute = false;
  std::vector<uint32_t> kept_units;
  plan::segment_place light_before;
  bool overlap_exchanges = false;
  uint32_t exchange_pieces = 1;
  plan::gather_options gathering;
  uint64_t reduce_bucket = 0;
  bool buckets_follow_units = false;
  uint32_t activation_units = 0;
};

/// An entry of a schedule of passes that the embedding program has set, with the fields of scheduled_passes.
struct told_schedule {
  uint64_t step = 0;
  std::vector<std::string> passes;
  bool is_automatic = false;
  uint64_t tried_steps = 0;
};

/// Names a file that the leading process has just written into the folder of outputs; an empty path: it could not write
/// there. Sent before the opening of a term that spans machines, if all write into one folder; processes of other
/// machines look for the file.
struct output_call {
  std::string path, content;
};

/// Describes how the receiver makes its plans for the new term, and where the states come from. It is the first call of
/// a term, except for output_call.
struct opening_call {
  std::optional<plan::cost_model> costs;  ///< costs that the leading process measured; none: the cost model's defaults
  wanted_load load;
  /// Passes chosen for the step plan; none: the passes that the configuration begins with.
  std::optional<chosen_passes> passes;
  std::optional<std::vector<told_schedule>> schedule;
};

/// A new name of a save in memory; an empty `to` removes the name.
struct kept_name {
  std::string from, to;
};

/// Orders the receiver to run a plan once on its ranks; `order` has the number and the settings of the run.
struct run_call {
  uint64_t run = 0, step = 0;
  plan::plan_choice which = plan::plan_choice::train;
  // The fields `micros` to `output` have the meaning of the fields of run_wish with these names.
  uint32_t micros = 0;
  bool keeps_logits = false, computes_loss = true;
  std::string output;
  /// Size of a batch that the caller provides, as samples and tokens; 0: the loader's batch is used.
  uint64_t rows = 0, columns = 0;
  std::vector<int64_t> tokens;
  // The fields below are for plans that save.
  bool saves_in_memory = false;
  std::string invitation, request;  ///< invitation and request of the save, encoded as in part_result.hpp
  bool early_updates = false;       ///< true: training updates before the vote, if the run decides that order
};

/// Requests elements of the states of a rank, counted in the rank's own table.
struct read_call {
  uint32_t rank = 0, parameter = 0;
  plan::state_part part = plan::state_part::master;
  uint64_t first = 0, count = 0;
  core::dtype type = core::dtype::f32;
};
/// Orders the receiver to write elements of the states of a rank, by elements of the rank's own table.
struct write_call {
  read_call where;
  std::string bytes;
};
/// Changes names of saves in memory; has no answer.
struct names_call {
  std::vector<kept_name> names;
};

/// Sets the masks of all pruned modules from now on; has no answer.
struct masks_call {
  std::vector<std::vector<uint8_t>> masks;  ///< bits of the masks, by pruned module, in the layout of pruning_masks
};
/// Sets the schedule of passes from now on; has no answer.
struct schedule_call {
  std::vector<told_schedule> entries;
};
/// Loads a checkpoint between two steps. The receiver checks the checkpoint and answers; `go_call`, which is answered
/// as well, then decides whether the states are loaded.
struct load_call {
  wanted_load load;
};
struct go_call {
  bool goes_on = false;
};
/// Orders the receiver to move states out of memory, as offload_request describes; the answer has the bytes.
struct offload_call {
  std::vector<std::string> include;
  plan::tier device = plan::tier::cpu;
  std::string nvme_path;
};
/// Orders the receiver to move offloaded states back into memory.
struct reload_call {
  bool now = true;
};
/// Requests the tag under which the receiving process would save the states after `step`; the leading process compares
/// the tags.
struct tag_call {
  uint64_t step = 0;
};
/// Reports that a checkpoint was committed whose files are on the disks of several machines, with the data about it
/// that the other processes keep. Has no answer.
struct committed_call {
  std::string folder, manifest, latest;
  std::vector<std::string> save_ids;  ///< ids of all existing checkpoints, in hexadecimal digits
  /// Text with one line for each file of the checkpoint: the file's name and the machine that wrote it.
  std::string writers;
};

using peer_call = std::variant<opening_call, run_call, read_call, write_call, names_call, masks_call, schedule_call,
                               load_call, go_call, offload_call, reload_call, tag_call, committed_call, output_call>;

/// Answer to a call that is made between two steps.
struct deed_answer {
  bool failed = false;
  core::error_kind kind = core::error_kind::bug;
  std::string text;                           ///< reason, if the call failed; else the text that the call requested
  uint64_t moved_bytes = 0, freed_bytes = 0;  ///< bytes moved and freed by offload_call
};

/// Answer to a run: the reports of a process's ranks, and the peak bytes of activations of each.
struct run_answer {
  rank_reports reports;  ///< reports of this process's ranks, without their plans
  std::vector<uint64_t> peak_bytes;
  uint32_t machine = 0;
  /// Bytes that this process has received from other machines since its term began.
  uint64_t entered_bytes = 0;
  /// shift from this process's clock to the supervisor's clock; none: not measured yet
  std::optional<telemetry::clock_shift> clock{};
  /// Links from processes of other machines to this one, since the process's term began.
  std::vector<link_traffic> links{};
};

std::string encode(const peer_call& call);
core::result<peer_call> decode_call(std::string_view bytes);
std::string encode(const run_answer& answer);
core::result<run_answer> decode_run_answer(std::string_view bytes);
std::string encode(const deed_answer& answer);
core::result<deed_answer> decode_deed_answer(std::string_view bytes);

}  // namespace troupe::actors
