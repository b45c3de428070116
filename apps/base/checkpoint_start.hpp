// Where a run from the command line begins: in its own newest checkpoint, in one that the user names, or at step 0; and
// who may write to its output folder and to the checkpoints there. Reading them is the session's business.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/commit/folder_lock.hpp"
#include "config/load.hpp"
#include "config/sections/run_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Wishes of the command line of `troupe train` about where the run begins, beside the configuration.
struct start_wishes {
  bool fresh = false;          ///< not from the run's own checkpoints
  bool named_by_hand = false;  ///< --resume was given: before the run's own
  /// Keys of checkpoint.load, without that prefix, that the command line gives a value.
  std::vector<std::string> keys_by_hand{};
  std::filesystem::path map{};  ///< --map: a file with other names for the tensors of --resume
};

struct run_start {  ///< where a run begins
  /// Its path is empty where the run begins at step 0.
  config::checkpoint_load_section load;
  /// From a checkpoint of the run's own folder: the run is the same one and resumes.
  bool own = false;
  std::filesystem::path map{};  ///< start_wishes::map, where the run begins from what --resume names; else empty
};

/// Folders for checkpoints that are set aside: `checkpoints.1` and so on.
inline constexpr uint32_t max_set_aside = 1000;

/// A network file system takes the locks of a host that is cut off after a time of its own (NFS: 90 s).
inline constexpr int64_t former_holder_ns_max = 120'000'000'000;

class checkpoint_start {
 public:
  using say_function = std::function<void(const std::string&)>;

  /// `root` is the run's own folder of checkpoints, absolute; it may be missing.
  checkpoint_start(std::filesystem::path root, config::checkpoint_load_section load, start_wishes wishes);

  /// Takes the folder for this process where it is there, removes what a crash left half-written, and says so. Then
  /// where the run begins. Errors (bad_input): another run has the folder; `latest` is damaged and nothing may be taken
  /// instead; a wish that the chosen start cannot follow.
  /// `again`: steps of this run have been done, so what it was told about its beginning counts no more where there is a
  /// checkpoint of its own; and who did them may be about to end: waits until the folder is free, for
  /// former_holder_ns_max.
  core::result<run_start> choose(const say_function& say, bool again = false);

  /// Once the run has been opened at `step`: moves checkpoints of another course out of the way, into `checkpoints.1`
  /// and so on beside the folder: all of them, or, where the run went on from its own, those of later steps.
  core::result<void> begin(const run_start& start, uint64_t step, const say_function& say) const;

  /// Takes the folder of checkpoints, which is made where it is missing, for this process, and again where it was
  /// removed since. Before each checkpoint.
  core::result<void> claim(const say_function& say);
  /// Takes the output folder around it for this process, likewise; one run at a time writes there, with or without
  /// checkpoints.
  core::result<void> claim_output(const say_function& say);

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

 private:
  void wait_for_folder(const say_function& say) const;
  /// The run's own checkpoints, loaded as checkpoint.load says. Keys that the file gives beside a path are for that
  /// path; what was given by hand acts or is refused. Says which keys have no effect.
  core::result<config::checkpoint_load_section> own_load(const say_function& say) const;
  [[nodiscard]] bool is_by_hand(const char* key) const;
  /// `start` as it is. Refused: nothing is loaded, and something was given by hand that says how.
  [[nodiscard]] core::result<run_start> at_step_0(run_start start) const;

  std::filesystem::path root_;
  config::checkpoint_load_section load_;
  start_wishes wishes_;
  std::string own_begin_;  ///< the own checkpoint that the run has begun from, as `latest` named it
  std::optional<checkpoint::folder_lock> output_lock_, lock_;
};

}  // namespace troupe::apps
