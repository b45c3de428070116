// Options of opening a run. Plain values.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/loading/load_options.hpp"
#include "actors/run/hooks.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/kept_costs.hpp"

namespace caf {
class actor_system;
}

namespace troupe::cluster {
class process;
}

namespace troupe::actors {

struct host_model;

/// Parallel degrees that were chosen for a run because its configuration leaves them open (`parallel: auto`).
struct run_degrees {
  /// The job's configuration with the chosen degrees in place of `auto`
  std::shared_ptr<const config::job_config> config;
  config::degree_choice taken;
  std::string reason;  ///< reason for the chosen degrees, in one line
  std::string table;   ///< table of every candidate for the degrees: step time, memory, or why it cannot run
};

/// A checkpoint from which a run continues, and the options with which it is loaded.
struct resume_choice {
  std::filesystem::path path{};  ///< path of the checkpoint to resume from; empty: the run starts from the beginning
  load_options load{};
};

struct session_options {  ///< the options with which a session opens
  std::shared_ptr<const config::job_config> config;
  session_hooks hooks{};
  /// The host program's CAF actor system, which must outlive the session and have Troupe's message types
  /// (`add_message_types` of actors/host.hpp). Null: the session creates one.
  caf::actor_system* system = nullptr;
  /// The checkpoint from which the run continues, in any format that checkpoint/convert/open_source.hpp reads, or a
  /// folder of checkpoints, whose file `latest` names one. Any ZeRO stage, precision and number of ranks may have
  /// written it. If the checkpoint lacks parts of a run's state, a warning says what was assumed. Empty: the run starts
  /// from the beginning.
  std::filesystem::path resume{};
  /// The host program's own model and batches, in place of those that the keys `model` and `data` describe
  /// (actors/session/host_model.hpp). Null: the configuration's.
  std::shared_ptr<const host_model> model{};
  load_options load{};  ///< selects which parts of the checkpoint `resume` are loaded
  /// Constants of this machine, by which passes, open degrees and sizes are chosen (docs/foresight.md). None: usual
  /// rates. In a job of several processes those of the leading process count for all.
  std::optional<job::model_of_kept> kept_costs{};
  /// The link to the supervisor of a job of several processes, each of which opens a session with the same
  /// configuration and runs some of the ranks (docs/cluster.md). Null: all ranks run in this process.
  std::shared_ptr<cluster::process> process{};
  /// For a job of several processes, in place of `resume` and `load`: returns the checkpoint from which the run
  /// continues. Called in the leading process if a term (time with the same processes) begins without a save in memory.
  /// `again`: true if the run has begun before in an earlier term.
  std::function<core::result<resume_choice>(bool again)> choose_resume{};
  /// For several processes whose `config` has another number of data ranks than the job's file: the configuration of
  /// that file, whose batch every number of data ranks must divide. Null: `config`.
  std::shared_ptr<const config::job_config> file{};
  /// True if the program serves the page of `cluster.page` itself, as `troupe train` does. False: a warning says that
  /// the key has no effect.
  bool serves_page = false;
};

/// Returns the number of steps between two printed lines: `steps_per_print`, or, if that is 0, a fortieth of the run's
/// steps.
uint64_t print_interval(const config::job_config& config);

}  // namespace troupe::actors
