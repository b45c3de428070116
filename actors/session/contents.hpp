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

/// Agreements of the processes that load between two steps. Empty functions: no other process loads.
struct load_agreement {
  std::function<core::result<void>()> before_changes{};  ///< nothing refuses the checkpoint here
  std::function<core::result<void>()> after_changes{};   ///< the states of this process are those of the checkpoint
};

/// The treatment of a save that is still being written: left alone, or waited for.
enum class unfinished_save : uint8_t { leave, wait };

/// The host's own model, where it has one. Written when the session is opened.
struct host_modules {
  std::shared_ptr<const host_model> model;              ///< null: the configuration's model is trained
  std::shared_ptr<models::prepared_modules> instances;  ///< of `model`, until the actors take them over
  std::vector<std::string> outputs{};                   ///< names of what the last unit puts out
  std::string layers{};                                 ///< what of them is cut or replaced, what not and why
  std::string changes{};                                ///< what passes over units did, a line for each
};

/// Messages of the session to its host.
struct host_messages {
  session_hooks hooks;
  std::shared_ptr<line_box> warnings = std::make_shared<line_box>(warnings_max, "warnings");
  /// Thrown by a hook while a plan was being run: rethrown once the result of that run is booked.
  std::exception_ptr thrown;
};

/// Where the states are. Written when the session is opened, and by offload_states and reload_states.
struct session_memory {
  swap_files swaps;
  std::vector<std::shared_ptr<rank_memory>> ranks;  ///< [rank]: of others as much as processes share
  std::vector<std::shared_ptr<rank_memory>> here;   ///< those of this process
  std::shared_ptr<const device_room> room;          ///< of the device
  std::unique_ptr<allocation_ledger> ledger;        ///< of activations; there once the number of ranks is known
  std::unique_ptr<offloaded_states> offloaded;      ///< null: everything is where the plan has it
  std::shared_ptr<pruning_masks> masks;             ///< null: nothing is pruned. Steps change which of them act
};

/// The state of snip_momentum between steps. Each step and each load writes it.
struct snip_scores {
  std::vector<std::vector<float>> sums;    ///< [pruned module]: by element as (out, in); empty: another method
  std::vector<std::vector<float>> before;  ///< likewise: the weights that the step under way began with
  std::optional<uint64_t> turned;          ///< updates at which masks were made last
};

/// Texts as tokens, and what made them: the same for all degrees of a job.
struct read_texts {
  std::shared_ptr<data::tokenizer> tokenizer;
  std::shared_ptr<const data::corpus> corpus;
};

/// The training data.
struct session_data {
  std::shared_ptr<data::tokenizer> tokenizer;  ///< null for a host's own model
  /// The record of the data for checkpoints; none: not asked for yet, or the data could not be read.
  std::optional<checkpoint::data_record> record;
  loader_setup loader;
};

/// Whom a call to stop asks, from any thread, while terms come and go.
class stop_line {
 public:
  /// The supervisor of now; it hears of what was asked before it was there. Null: there is none any more.
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

/// Where people see what ranks are in, from any thread, while terms come and go.
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
  telemetry_actor telemetry;  ///< among them, from the first term to the end of the session
};

/// How far training is: each step moves it, a checkpoint keeps it, a load replaces it.
struct training_progress {
  uint64_t steps = 0;
  uint64_t applied = 0;    ///< updates as the optimizer counts them: skipped steps are none
  uint64_t scheduled = 0;  ///< updates as the schedule counts them; a load may take over only one of the two
  kernels::loss_scale_state scale;
  std::vector<kernels::activation_range> input_ranges;  ///< [job::chosen_compression::layers]; empty: none yet
  std::optional<double> gradient_factor;  ///< makes the last step's reduced gradients means; none before the first
  std::string client_state = "null";
  std::vector<core::left_out_steps> left_out;  ///< data.loader.shape follows it
  std::vector<double> recent_losses;           ///< that on_spike compares with
  job::judged_loss judged;                     ///< of the last step

  /// The loss scale in the form of a checkpoint.
  [[nodiscard]] checkpoint::loss_scale_record scale_record() const {
    return {scale.cur_scale, scale.cur_iter, scale.last_overflow_iter, scale.cur_hysteresis};
  }
};

/// Counters that number what the actors are told to do; they never go back.
struct order_counts {
  uint64_t runs = 0;                  ///< of any plan
  std::vector<uint64_t> collectives;  ///< of all runs of this term [communicator]
  uint64_t loads = 0;                 ///< of states while the actors live
};

/// Saves that have not ended: at most one that waits for the next step, and one that is being written.
struct unfinished_saves {
  std::shared_ptr<save_job> waiting;  ///< the next run that saves takes the copies
  std::shared_ptr<save_job> writing;  ///< being copied, or copied already
};

/// Checkpoints of this run that it can go back to, by their steps: each save adds one, a load leaves its own alone.
struct saved_places {
  struct place {
    uint64_t step = 0;
    std::filesystem::path path;
    load_options options;
  };
  std::vector<place> all;  ///< steps ascend

  /// Later ones are of what the run has left behind.
  void add(place made) {
    std::erase_if(all, [&](const place& x) { return x.step >= made.step || x.path == made.path; });
    all.push_back(std::move(made));
  }
};

/// Why the run is over, if it is. Written once.
struct run_over {
  std::optional<core::error> why;
  bool states_whole = false;  ///< the error came before any state had changed: saving still works
  /// The first step that lacks a micro-batch (loader_setup::first_lost_step).
  std::shared_ptr<std::atomic<uint64_t>> lost_step =
      std::make_shared<std::atomic<uint64_t>>(std::numeric_limits<uint64_t>::max());
};

/// The options of one run of a plan, in addition to its step.
struct run_wish {
  std::shared_ptr<const data::batch> given{};  ///< step_order::given
  uint32_t micros = 0;                         ///< step_order::micros
  bool keeps_logits = false;                   ///< step_order::keeps_logits
  std::string output{};                        ///< step_order::output
  bool computes_loss = true;                   ///< step_order::computes_loss
};

/// Which passes change the step plan, from which step on.
struct pass_schedule {
  struct entry {
    uint64_t step = 0;
    job::pass_wish wish;
    uint64_t tried_steps = 0;  ///< if measured times chose it: after so many steps the faster of it and the last stays
  };
  struct earlier {       ///< what steps ran by before an entry that is tried
    uint64_t until = 0;  ///< steps done when the trial ends
    double step_s = 0;   ///< measured
    job::changed_steps steps;
  };
  std::vector<entry> entries;          ///< steps ascend
  size_t next = 0;                     ///< of them: those before have been used, or a later one has
  std::optional<earlier> before;       ///< while an entry is tried
  telemetry::instruction_times times;  ///< of the steps since the plan last changed
  std::vector<uint64_t> peak_bytes;    ///< of activations in these steps [rank]
  double step_s = 0;                   ///< that a trial has measured of the plan that it went back to; 0: none has

  /// The entries before this one have had their turn when so many steps are done: `next` if none has.
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
