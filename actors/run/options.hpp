// Options of opening a run. Plain values.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/loading/load_options.hpp"
#include "actors/run/hooks.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace caf {
class actor_system;
}

namespace troupe::cluster {
class process;
}

namespace troupe::actors {

struct host_model;
struct read_texts;

/// Degrees that a configuration left open (`parallel: auto`), as chosen for a run.
struct run_degrees {
  std::shared_ptr<const config::job_config> config;  ///< the configuration with the chosen degrees
  config::degree_choice taken;
  std::string reason;  ///< reason for the chosen degrees, in one line
  std::string table;   ///< table of every candidate for the degrees: step time, memory, or why it cannot run
  /// Content of `job::degrees_file_name` in the run's folder, with which the next run there chooses the same degrees;
  /// empty if nothing was newly measured.
  std::string file;
  /// Texts that choosing the degrees has read, for session_options; null if no step was run.
  std::shared_ptr<const read_texts> texts{};
};

/// A checkpoint to resume from, and the parts of it that are taken over.
struct resume_choice {
  std::filesystem::path path{};  ///< path of the checkpoint to resume from; empty: the run starts from the beginning
  load_options load{};
};

struct session_options {  ///< the options with which a session opens
  std::shared_ptr<const config::job_config> config;
  session_hooks hooks{};
  /// The host's actor system, which must outlive the session and have Troupe's message types (`add_message_types` of
  /// actors/host.hpp). Null: the session creates its own.
  caf::actor_system* system = nullptr;
  /// The checkpoint to resume from, in any format that checkpoint/convert/open_source.hpp reads, or a folder of
  /// checkpoints, whose `latest` names one. Any stage, precision and number of ranks may have written it. If the
  /// checkpoint lacks parts of a run's state, a warning names what was assumed. Empty: the run starts from the
  /// beginning.
  std::filesystem::path resume{};
  /// The host's own modules and batches, in place of `model` and `data` (actors/session/host_model.hpp). Null: those of
  /// the configuration.
  std::shared_ptr<const host_model> model{};
  load_options load{};                        ///< selects which parts of the checkpoint `resume` are loaded
  std::shared_ptr<const read_texts> texts{};  ///< texts that choosing the degrees has already read (run_degrees::texts)
  /// The link to the supervisor of a job of several processes, each of which opens such a session and runs some of its
  /// ranks (docs/cluster.md). Null: all ranks run in this process.
  std::shared_ptr<cluster::process> process{};
  /// Returns the checkpoint to resume from, in place of `resume` and `load`, for a job of several processes. Called in
  /// the leading process if a term cannot begin with a save in memory. `again`: steps of this run have been done.
  std::function<core::result<resume_choice>(bool again)> choose_resume{};
  /// The job as its file describes it, for several processes whose `config` has another data degree: every degree
  /// divides the batch of this job. Null: `config`.
  std::shared_ptr<const config::job_config> file{};
};

/// Returns the number of steps between two printed lines: `steps_per_print`, or a fortieth of the run.
uint64_t print_interval(const config::job_config& config);

}  // namespace troupe::actors
