// The state of a session: its host's model, data, memory, actors, progress, saves. Each struct groups the values that
// one event writes, and names that event. Only the sources of this folder include it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/company.hpp"
#include "actors/hands/device_room.hpp"
#include "actors/memory/ledger.hpp"
#include "actors/memory/offloaded_states.hpp"
#include "actors/memory/pruning_masks.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/memory/swap_files.hpp"
#include "actors/saving/save_job.hpp"
#include "actors/session/line_box.hpp"
#include "actors/session/own_system.hpp"
#include "actors/session/recording.hpp"
#include "actors/session/session.hpp"
#include "actors/session/session_processes.hpp"
#include "checkpoint/native/manifest.hpp"
#include "job/blueprint.hpp"
#include "job/changed_steps.hpp"
#include "job/loss_watch.hpp"
#include "telemetry/instruction_times.hpp"

namespace troupe::models {
class prepared_modules;
}

namespace troupe::actors {

/// Where the first weights come from when a session is opened.
enum class first_weights : uint8_t { drawn, from_checkpoint };

/// The time at which a checkpoint is loaded: before the actors exist, or while they live.
enum class resume_time : uint8_t { while_opening, while_running };

/// Agreements between the processes that load together, made between two steps. Empty functions: no other process
/// loads.
struct load_agreement {
  std::function<core::result<void>()> before_changes{};  ///< called once no check refuses the checkpoint
  /// Called once this process's states are those of the checkpoint.
  std::function<core::result<void>()> after_changes{};
};

/// The treatment of a save that is still being written: left alone, or waited for.
enum class unfinished_save : uint8_t { leave, wait };

/// The host's own model, if it has one. Written when the session is opened.
struct host_modules {
  std::shared_ptr<const host_model> model;              ///< null: the configuration's model is trained
  std::shared_ptr<models::prepared_modules> instances;  ///< instances of `model`, until the actors take them over
  std::vector<std::string> outputs{};                   ///< names of the last unit's outputs
  std::string layers{};   ///< report: which layers are cut or replaced, which are not, and why
  std::string changes{};  ///< report of the changes that passes over units made, a line for each
};

/// Messages of the session to its host.
struct host_messages {
  session_hooks hooks;
  std::shared_ptr<line_box> warnings = std::make_shared<line_box>(warnings_max, "warnings");
  /// Exception that a hook threw while a plan was being run; rethrown once the result of that run is booked.
  std::exception_ptr thrown;
};

/// The memory that holds the states. Written when the session is opened, and by offload_states and reload_states.
struct session_memory {
  swap_files swaps;
  /// [rank]: memory of each rank; for ranks of other processes only the shared pools
  std::vector<std::shared_ptr<rank_memory>> ranks;
  std::vector<std::shared_ptr<rank_memory>> here;  ///< the elements of `ranks` that belong to this process
  std::shared_ptr<const device_room> room;         ///< memory of the device that the run may use
  std::unique_ptr<allocation_ledger> ledger;  ///< counts bytes of activations; null until the number of ranks is known
  std::unique_ptr<offloaded_states> offloaded;  ///< null: all states are where the plan has them
  std::shared_ptr<pruning_masks> masks;         ///< null: nothing is pruned. Steps change which masks are in effect
};

/// The state of snip_momentum between steps. Each step and each load writes it.
struct snip_scores {
  /// [pruned module]: scores by element as (out, in); empty with another pruning method
  std::vector<std::vector<float>> sums;
  /// [pruned module]: weights by element as (out, in) at the begin of the current step
  std::vector<std::vector<float>> before;
  std::optional<uint64_t> turned;  ///< number of updates after which the masks were last computed
};

/// Texts as tokens, and the tokenizer that made them. The degrees of a job do not change them.
struct read_texts {
  std::shared_ptr<data::tokenizer> tokenizer;
  std::shared_ptr<const data::corpus> corpus;
};

/// The training data.
struct session_data {
  std::shared_ptr<data::tokenizer> tokenizer;  ///< null for a host's own model
  /// The record of the data for checkpoints; none: not requested yet, or the data could not be read.
  std::optional<checkpoint::data_record> record;
  loader_setup loader;
};

/// Forwards a request to stop to the current supervisor, across terms. Thread-safe.
class stop_line {
 public:
  /// Sets the current supervisor, and sends it the last request if there was one. Null: the job has no supervisor any
  /// more.
  void connect(supervisor_actor to) {
    const std::lock_guard lock(mutex_);
    to_ = std::move(to);
    if (to_ && asked_) post(to_, *asked_);
  }
  void ask(const std::string& why) {
    const std::lock_guard lock(mutex_);
    asked_ = give_up{core::error_kind::stopped, why};
    if (to_) post(to_, *asked_);
  }

 private:
  std::mutex mutex_;
  supervisor_actor to_;
  std::optional<give_up> asked_;
};

/// Holds the board that shows the current instructions of ranks, across terms. Thread-safe.
class shown_pulses {
 public:
  void show(std::shared_ptr<pulse_board> board) {
    const std::lock_guard lock(mutex_);
    board_ = std::move(board);
  }
  [[nodiscard]] std::shared_ptr<pulse_board> board() const {
    const std::lock_guard lock(mutex_);
    return board_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<pulse_board> board_;
};

/// The actors and the system they live in, from the end of the opening to the end of the session.
struct session_company {
  std::unique_ptr<own_system> own;  ///< null: the host's system
  caf::actor_system* system = nullptr;
  std::shared_ptr<company> members;
  stop_line stops;
  shown_pulses pulses;
  telemetry_actor telemetry;  ///< one of the system's actors, from the first term to the end of the session
};

/// Progress of training: each step advances it, a checkpoint stores it, a load replaces it.
struct training_progress {
  uint64_t steps = 0;
  uint64_t applied = 0;  ///< number of updates that the optimizer has applied; skipped steps do not count
  /// Updates as the schedule counts them; a load may take over this number without `applied`, or the reverse.
  uint64_t scheduled = 0;
  kernels::loss_scale_state scale;
  /// [job::chosen_compression::layers]: ranges of the layers' inputs; empty: none measured yet
  std::vector<kernels::activation_range> input_ranges;
  /// Factor that turns the last step's reduced gradients into means; none before the first step.
  std::optional<double> gradient_factor;
  std::string client_state = "null";
  std::vector<core::left_out_steps> left_out;  ///< samples that the run leaves out; data.loader.shape follows this list
  std::vector<double> recent_losses;           ///< losses that on_spike compares a step's loss with
  job::judged_loss judged;                     ///< judgement of the last step's loss: whether it is a spike

  /// The loss scale in the form of a checkpoint.
  [[nodiscard]] checkpoint::loss_scale_record scale_record() const {
    return {scale.cur_scale, scale.cur_iter, scale.last_overflow_iter, scale.cur_hysteresis};
  }
};

/// Counters that number the orders to the actors; they never decrease.
struct order_counts {
  uint64_t runs = 0;                  ///< number of runs of plans so far, of any plan
  std::vector<uint64_t> collectives;  ///< [communicator]: number of collectives in all runs of this term
  uint64_t loads = 0;                 ///< number of loads of states since the actors were started
};

/// Saves that have not ended: at most one that waits for the next step, and one that is being written.
struct unfinished_saves {
  /// Save that was requested and not begun: the next run that saves makes its copies.
  std::shared_ptr<save_job> waiting;
  std::shared_ptr<save_job> writing;  ///< save whose states are being copied, or are copied and being written
};

/// Checkpoints that this run can return to, by their steps. Each save adds one; a load removes all others than the
/// checkpoint that the run continues from.
struct saved_places {
  struct place {
    uint64_t step = 0;
    std::filesystem::path path;
    load_options options;
  };
  std::vector<place> all;  ///< checkpoints in ascending order of their steps

  /// Adds a checkpoint, and removes those of the same or a later step: they belong to steps that the run has undone.
  void add(place made) {
    std::erase_if(all, [&](const place& x) { return x.step >= made.step || x.path == made.path; });
    all.push_back(std::move(made));
  }
};

/// The reason why the run is over, if it is. Written once.
struct run_over {
  std::optional<core::error> why;
  bool states_whole = false;  ///< true: the error came before any state had changed, so saving still works
  /// The first step that lacks a micro-batch (loader_setup::first_lost_step).
  std::shared_ptr<std::atomic<uint64_t>> lost_step =
      std::make_shared<std::atomic<uint64_t>>(std::numeric_limits<uint64_t>::max());
};

/// The options of one run of a plan, in addition to its step.
struct run_wish {
  std::shared_ptr<const data::batch> given{};  ///< batch of the run in place of the loader's, as step_order::given
  uint32_t micros = 0;                         ///< number of micro-batches of the run, as step_order::micros
  bool keeps_logits = false;                   ///< true: an evaluation stores its logits, as step_order::keeps_logits
  std::string output{};                        ///< name of the model's output to store, as step_order::output
  /// False: an evaluation computes outputs only, as step_order::computes_loss.
  bool computes_loss = true;
};

/// The passes that change the step plan, each from a given step on.
struct pass_schedule {
  struct entry {
    uint64_t step = 0;
    job::pass_wish wish;
    /// If greater than 0, the entry is on trial: after so many steps the faster plan of this entry and the previous one
    /// stays.
    uint64_t tried_steps = 0;
  };
  struct earlier {       ///< the steps that ran before an entry that is on trial
    uint64_t until = 0;  ///< number of steps done when the trial ends
    double step_s = 0;   ///< measured seconds of a step with the plan before the trial
    job::changed_steps steps;
  };
  std::vector<entry> entries;  ///< changes of passes in ascending order of their steps
  size_t next = 0;  ///< index in `entries` of the next one; earlier ones were used, or overtaken by a later one
  std::optional<earlier> before;       ///< the plan before the current trial; none: no entry is on trial
  telemetry::instruction_times times;  ///< times of instructions, from the steps since the plan last changed
  std::vector<uint64_t> peak_bytes;    ///< [rank]: peak bytes of activations in the steps since the plan last changed
  /// Seconds of a step of the plan that the last trial went back to, as measured; 0: no trial went back.
  double step_s = 0;

  /// Returns the end of the entries that take effect after `steps` steps; `next` if no entry does.
  [[nodiscard]] size_t due(uint64_t steps) const;
  [[nodiscard]] bool is_measuring() const { return next < entries.size() || before.has_value(); }
  [[nodiscard]] bool is_measured() const { return times.steps() > 0 && times.is_warm(); }
};

/// Everything that a change of degrees rebuilds: plans, memory and actors of the ranks.
struct term {
  job::blueprint plan;
  std::vector<std::shared_ptr<rank_programs>> programs;
  session_memory memory;
  std::shared_ptr<company> members;
  std::vector<uint64_t> collectives;
  loader_setup loader;
  training_progress progress;
  snip_scores snip;
};

}  // namespace troupe::actors
