// What a session is made of, shared by session.cpp (opening, running) and state.cpp (reading weights,
// generating, exporting). Nobody else includes it.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/company.hpp"
#include "actors/hands/save_job.hpp"
#include "actors/hands/swap_files.hpp"
#include "actors/host.hpp"
#include "actors/memory/ledger.hpp"
#include "actors/memory/offloaded_states.hpp"
#include "actors/memory/rank_memory.hpp"
#include "actors/session/opening.hpp"
#include "actors/session/recording.hpp"
#include "actors/session/session.hpp"
#include "job/blueprint.hpp"

namespace troupe::models {
class prepared_modules;
}

namespace troupe::actors {

/// Of the scheduler of a session's own actor system.
inline constexpr size_t own_workers = 2;

/// CAF's settings for a process of Troupe's own.
struct system_config : caf::actor_system_config {
  system_config() {
    actors::add_message_types(*this);
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", own_workers);     // rank, supervisor, loader, telemetry: policy, never arithmetic
    set("scheduler.max-throughput", size_t{100});  // nobody keeps a worker to himself
  }
};

/// An actor system for one session.
struct own_system {
  system_config settings;
  caf::actor_system system{settings};
};

/// Warnings on their way from actors to the host's thread.
class warning_box {
 public:
  /// From any thread.
  void put(const std::string& line);
  /// The oldest line that nobody has taken; last, one about those beyond warnings_max.
  std::optional<std::string> take();

 private:
  std::mutex mutex_;
  std::deque<std::string> lines_;
  uint64_t lost_ = 0;
};

struct session::parts {
  job::blueprint plan;
  std::shared_ptr<const host_model> model;         // null: the configuration's
  std::shared_ptr<models::prepared_modules> host;  // of `model`, until the actors have its instances
  session_hooks hooks;
  swap_files swaps;
  std::vector<std::shared_ptr<rank_memory>> memory;
  std::vector<std::shared_ptr<rank_programs>> programs;  ///< [rank]
  std::shared_ptr<data::tokenizer> tokenizer;
  loader_setup data;
  std::shared_ptr<warning_box> warnings = std::make_shared<warning_box>();
  session_recording recording;
  std::optional<allocation_ledger> ledger;
  std::unique_ptr<own_system> own;  // null: the host's
  caf::actor_system* system = nullptr;
  std::shared_ptr<company> actors;
  kernels::loss_scale_state scale;
  uint64_t runs = 0, steps = 0, collectives = 0;
  uint64_t applied = 0;               // updates that the optimizer has counted
  uint64_t scheduled = 0;             // those that the schedule has; others where a run took over only one of the two
  std::optional<double> last_factor;  // makes the last step's reduced gradients means; none before the first
  std::shared_ptr<save_job> save_waiting;  // asked for; the next run that saves takes the copies
  std::shared_ptr<save_job> save_writing;  // copied or being copied
  std::string client_state = "null";
  uint64_t loads = 0;                           // of states while the actors live
  std::filesystem::path resumed_from;           // empty: from the beginning
  std::unique_ptr<offloaded_states> offloaded;  // null: everything is where the plan has it
  std::optional<core::error> over;
  bool over_with_states = false;  // what ended the run came before anything had changed
  std::exception_ptr thrown;      // by a hook while a run was under way: leaves when what the run did is booked
  std::shared_ptr<std::atomic<uint64_t>> lost_step =
      std::make_shared<std::atomic<uint64_t>>(std::numeric_limits<uint64_t>::max());  // see loader_setup

  /// Refuses while the run is over or states are elsewhere.
  [[nodiscard]] core::result<void> sound() const;
  /// Before states change other than by a step: `sound`, and nobody still needs them as they are.
  core::result<void> let_go_of_states();
  core::result<void> read_data(opening_watch& watch);
  core::result<uint64_t> num_evaluations(uint64_t wanted) const;
  /// Without first weights where others follow at once.
  void use_programs(plan::plan_choice which, plan::rank_plans plans);
  core::result<void> want(plan::plan_choice which);  ///< its plans are there
  [[nodiscard]] const std::shared_ptr<const program>& program_of(plan::plan_choice which, uint32_t rank) const {
    return (*programs[rank])[static_cast<size_t>(which)];
  }
  core::result<void> take_memory(bool weights_follow, opening_watch& watch);
  /// Takes a checkpoint over; the folder that it was. `live`: while the actors live. An error before anything changed
  /// leaves all as it was; after that the run is over.
  core::result<std::filesystem::path> resume(const std::filesystem::path& from, load_options options, bool live,
                                             opening_watch& watch);
  core::result<void> tell_loader();
  core::result<void> begin_save(const save_request& request);
  core::result<std::shared_ptr<save_job>> make_save(const save_request& request);
  core::result<void> save_without_lanes(const save_request& request);
  core::result<void> end_saves();
  std::optional<core::error> collect_save(bool wait);
  core::result<void> start_actors();
  void end_actors();
  telemetry_setup make_telemetry();
  core::result<void> open_records();
  void record(const step_report& r, std::shared_ptr<const std::vector<telemetry::rank_spans>> spans);
  void record_loss(double loss);
  session_records finish(session_ending ending);
  [[nodiscard]] std::vector<telemetry::memory_row> memory_rows() const;
  void log_memory(const std::string& when);
  void deliver_warnings();
  /// Runs a plan once. Warnings wait: whoever has to book what the run did tells the host afterwards.
  core::result<run_outcome> run(plan::plan_choice which, uint64_t step, std::shared_ptr<const data::batch> given);
  /// The same, and the host hears of it.
  core::result<run_outcome> run_and_tell(plan::plan_choice which, uint64_t step,
                                         std::shared_ptr<const data::batch> given);
  core::result<void> make_own_system();
};

}  // namespace troupe::actors
