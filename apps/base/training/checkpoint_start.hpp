// Chooses where a run from the command line begins: at its own newest checkpoint, at one that the user names, or at
// step 0. Owns the locks of the output folder and of its checkpoints. Leaves reading them to the session.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "checkpoint/commit/folder_lock.hpp"
#include "config/load.hpp"
#include "config/sections/run_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// The command-line options of `troupe train` that decide, together with the configuration, where the run begins.
struct start_wishes {
  bool fresh = false;          ///< true: the run's own checkpoints are not used
  bool named_by_hand = false;  ///< true: --resume was given, which takes precedence over the run's own checkpoints
  /// Keys of checkpoint.load, without that prefix, that the command line sets.
  std::vector<std::string> keys_by_hand{};
  std::filesystem::path map{};  ///< --map: a file with other names for the tensors of --resume
  std::string tag_by{};         ///< what set the tag of the checkpoint, for messages: `--tag`, `job.yaml:9:30`
};

struct run_start {  ///< the beginning of a run: a checkpoint, or step 0
  /// The checkpoint to load; its path is empty if the run begins at step 0.
  config::checkpoint_load_section load;
  /// true: the checkpoint is in the run's own folder, so the run continues itself
  bool own = false;
  std::filesystem::path map{};  ///< start_wishes::map if the run begins from the checkpoint of --resume; else empty
};

/// Returns the options of loading that the section checkpoint.load states; load_options::map stays empty.
actors::load_options load_options_of(const config::checkpoint_load_section& load);

struct own_checkpoint {  ///< a checkpoint in the run's own folder
  std::filesystem::path folder;
  uint64_t step = 0;
};

/// Largest N of the folders `checkpoints.N` into which checkpoints are moved that a new run does not continue.
inline constexpr uint32_t max_set_aside = 1000;

/// Longest wait in nanoseconds for the lock of a folder that a lost host still holds. A network file system releases
/// the locks of a host that is cut off after a timeout of its own (NFS: 90 s).
inline constexpr int64_t former_holder_ns_max = 120'000'000'000;

class checkpoint_start {
 public:
  using say_function = std::function<void(const std::string&)>;

  /// Stores its arguments. `root` is the run's own checkpoint folder, an absolute path that may not exist yet.
  checkpoint_start(std::filesystem::path root, config::checkpoint_load_section load, start_wishes wishes);

  /// Locks the checkpoint folder for this process if the folder exists, removes and reports what a crash left
  /// half-written, and returns where the run begins. `again`: steps of this run have been done before, e.g. by
  /// processes that were lost. The run's own newest checkpoint then takes precedence over the options for its
  /// beginning, and the call waits, at most former_holder_ns_max, until a previous process has released the folder.
  /// Errors (bad_input): another run holds the folder; `latest` is damaged and no other checkpoint may be used instead;
  /// an option or key that has no effect at the chosen beginning.
  core::result<run_start> choose(const say_function& say, bool again = false);

  /// Called once the run has been opened at `step`. Moves checkpoints that this run does not continue to the first free
  /// folder of `checkpoints.1`, `checkpoints.2` and so on: checkpoints after `step` if the run resumed from one of its
  /// own, else all of them.
  core::result<void> begin(const run_start& start, uint64_t step, const say_function& say) const;

  /// Locks the checkpoint folder for this process, and creates the folder if it is missing. Called before each
  /// checkpoint; locks again if the folder was removed since.
  core::result<void> claim(const say_function& say);
  /// Locks the run's output folder for this process, and again if the folder was removed since. Only one run at a time
  /// writes there, with or without checkpoints.
  core::result<void> claim_output(const say_function& say);

  /// Returns the run's own checkpoint of the highest step below `step`; none if there is none, or if the folder cannot
  /// be read.
  [[nodiscard]] std::optional<own_checkpoint> newest_before(uint64_t step) const;

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  void wait_for_folder(const say_function& say) const;
  /// Returns the section checkpoint.load for loading the run's own checkpoints. A key that the file sets together with
  /// checkpoint.load.path is omitted, because it describes the checkpoint at that path, unless the key applies to every
  /// checkpoint (load_key::is_for_all). The keys `module_only` and `tag` on the command line are refused. Reports the
  /// omitted keys through `say`.
  core::result<config::checkpoint_load_section> own_load(const say_function& say) const;
  [[nodiscard]] bool is_by_hand(const char* key) const;
  /// Checks `start`, and returns it unchanged. Refused: no checkpoint is loaded although the command line sets how to
  /// load one; the folder of the checkpoint to load has no checkpoint of the given tag.
  [[nodiscard]] core::result<run_start> at_step_0(run_start start) const;

  std::filesystem::path root_;
  config::checkpoint_load_section load_;
  start_wishes wishes_;
  std::string own_begin_;  ///< name, as in `latest`, of the run's own checkpoint that the run began from
  std::optional<checkpoint::folder_lock> output_lock_, lock_;
};

}  // namespace troupe::apps
