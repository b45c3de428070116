// What the process that leads a term asks of the others, what they answer, and both as bytes. Every process has the
// whole session and works out by itself what a call does not say: plans, learning rates, loss scales. Owns the form
// alone; who calls, and what a call does, is the session's.
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

/// The checkpoint's name of a parameter; none: it keeps its values.
struct tensor_name {
  std::string parameter;
  std::optional<std::string> name;
};

/// A checkpoint to take over. What is named as in load_options is that.
struct wanted_load {
  std::string path;  ///< empty: none
  std::optional<std::string> tag;
  std::string map;
  bool load_module_strict = true, load_optimizer_states = true, load_lr_scheduler_states = true;
  bool load_module_only = false;
  std::optional<bool> load_from_fp32_weights;
  bool pipeline_loading_checkpoint = false;
  uint64_t swap_batch_bytes = 0;
  bool fallback_to_previous = false, dequantise = false, changed_batch = false, changed_seed = false;
  bool changed_data = false;
  bool has_names = false;          ///< custom_load_fn was given: who leads has asked it for all parameters
  std::vector<tensor_name> names;  ///< its answers
  std::optional<std::vector<core::left_out_steps>> left_out;
};

/// What passes have changed of the options of a step that trains; all else the configuration says.
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

/// An entry of a schedule of passes that a host has given, as scheduled_passes.
struct told_schedule {
  uint64_t step = 0;
  std::vector<std::string> passes;
  bool is_automatic = false;
  uint64_t tried_steps = 0;
};

/// Before the opening of a term that spans machines, where all write into one folder of outputs: a file that the
/// process which leads has just written there; an empty path: it could not. Those of other machines look for it.
struct output_call {
  std::string path, content;
};

/// First of all in a term but for that: what the plans are made with, and where the states come from.
struct opening_call {
  std::optional<plan::cost_model> costs;  ///< measured by the process that leads; none: the usual ones
  wanted_load load;
  std::optional<chosen_passes> passes;  ///< none: those that the configuration begins with
  std::optional<std::vector<told_schedule>> schedule;
};

/// A name that a save in memory has got, or lost where `to` is empty.
struct kept_name {
  std::string from, to;
};

/// Run a plan once.
struct run_call {
  uint64_t run = 0, step = 0;
  plan::plan_choice which = plan::plan_choice::train;
  // As run_wish.
  uint32_t micros = 0;
  bool keeps_logits = false, computes_loss = true;
  std::string output;
  uint64_t rows = 0, columns = 0;  ///< of a batch that is given; 0: none is
  std::vector<int64_t> tokens;
  // Of plans that save.
  bool saves_in_memory = false;
  std::string invitation, request;  ///< as part_result.hpp has them
  bool early_updates = false;       ///< updates of training come before the vote, where the run decides
};

/// Read states of a rank, by elements of its own table.
struct read_call {
  uint32_t rank = 0, parameter = 0;
  plan::state_part part = plan::state_part::master;
  uint64_t first = 0, count = 0;
  core::dtype type = core::dtype::f32;
};
/// Write them.
struct write_call {
  read_call where;
  std::string bytes;
};
/// Names of saves in memory have changed; no answer.
struct names_call {
  std::vector<kept_name> names;
};

/// The masks of all pruned modules from now on; no answer.
struct masks_call {
  std::vector<std::vector<uint8_t>> masks;  ///< [pruned module] as pruning_masks has them
};
/// The schedule of passes from now on; no answer.
struct schedule_call {
  std::vector<told_schedule> entries;
};
/// Take a checkpoint over between two steps: look at it and answer; `go_call` says whether states change, and is
/// answered as well.
struct load_call {
  wanted_load load;
};
struct go_call {
  bool goes_on = false;
};
/// Take states out of memory, as offload_request says; the answer says how many.
struct offload_call {
  std::vector<std::string> include;
  plan::tier device = plan::tier::cpu;
  std::string nvme_path;
};
/// Bring them back.
struct reload_call {
  bool now = true;
};
/// How does this process name the checkpoint that is saved now?
struct tag_call {
  uint64_t step = 0;
};
/// A checkpoint on disks of machines is committed: what those that do not lead keep of it. No answer.
struct committed_call {
  std::string folder, manifest, latest;
  std::vector<std::string> save_ids;  ///< of all checkpoints that there are, as hexadecimal digits
  std::string writers;                ///< lines: a file's name and the host that wrote it
};

using peer_call = std::variant<opening_call, run_call, read_call, write_call, names_call, masks_call, schedule_call,
                               load_call, go_call, offload_call, reload_call, tag_call, committed_call, output_call>;

/// Of what all processes do between two steps.
struct deed_answer {
  bool failed = false;
  core::error_kind kind = core::error_kind::bug;
  std::string text;                           ///< why it failed; else what was asked for
  uint64_t moved_bytes = 0, freed_bytes = 0;  ///< of offload_call
};

/// Of a run: the reports of a process's ranks, and the most bytes of activations that each has had.
struct run_answer {
  rank_reports reports;  ///< without their plans
  std::vector<uint64_t> peak_bytes;
  uint32_t machine = 0;
  uint64_t entered_bytes = 0;                     ///< from other machines, since its term began
  std::optional<telemetry::clock_shift> clock{};  ///< from this process's clock to the supervisor's
  std::vector<link_traffic> links{};  ///< from processes of other machines to this one, since its term began
};

std::string encode(const peer_call& call);
core::result<peer_call> decode_call(std::string_view bytes);
std::string encode(const run_answer& answer);
core::result<run_answer> decode_run_answer(std::string_view bytes);
std::string encode(const deed_answer& answer);
core::result<deed_answer> decode_deed_answer(std::string_view bytes);

}  // namespace troupe::actors
