// Writes one checkpoint, from the first copy of states to its commit, by the writer lanes of all ranks of one process
// or of several. The process that leads creates the folder, commits the checkpoint and, once its states are proved,
// removes old ones; the other processes join it, write the files of their own ranks into the same folder, and report
// how each file ended. Owns the files, the digests and the commit or failure; the plan and the lane decide when a block
// of states is copied and written, and the caller sends invitations and results between processes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/saving/part_result.hpp"
#include "actors/saving/save_content.hpp"
#include "actors/saving/save_part.hpp"
#include "actors/saving/save_request.hpp"
#include "checkpoint/commit/commit.hpp"
#include "job/step/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// [rank]: true if this process writes the rank's file. Empty: this process writes the files of all ranks. The leading
/// process may write no file.
using ranks_here = std::vector<bool>;

/// One checkpoint while it is being written, as one process of the job sees it.
class save_job final : public save_target, public std::enable_shared_from_this<save_job> {
 public:
  /// Function that is called once for each rank of this process when the rank's part has succeeded or failed, on the
  /// thread that ends the part.
  using tell_part = std::function<void(const part_result&)>;

  /// Begins a save that this process leads: creates its folder. `plans`: plans of all ranks that save. `tensor`: how
  /// their parameters are split out of the whole model; empty: they are the whole model's. Ranks that are not `here`
  /// are written by other processes, whose results take_part() receives. Errors: io, no_space (needed and free bytes,
  /// of all ranks); nothing is left on the disk then.
  static core::result<std::shared_ptr<save_job>> begin(storage::file_system& files, save_request request,
                                                       checkpoint::run_state run, plan::rank_plans plans,
                                                       std::shared_ptr<const job::optimizer_groups> groups,
                                                       job::chosen_tensor tensor = {}, ranks_here here = {});

  /// Takes part in a save that another process leads, with the same request, step and plans. Writes the files of the
  /// ranks `here`, at least one, and is over when the last of their results has been passed to `tell`; the report of
  /// this object names no folder.
  static std::shared_ptr<save_job> join(storage::file_system& files, const save_invitation& invitation,
                                        const save_request& request, uint64_t step, plan::rank_plans plans,
                                        job::chosen_tensor tensor, ranks_here here, tell_part tell);

  /// Returns the folder and id that other processes need to join the save; valid until the save is over.
  [[nodiscard]] save_invitation invitation() const { return {place_.working, place_.save_id}; }

  [[nodiscard]] const save_request& request() const { return request_; }

  std::unique_ptr<save_part> begin_part(uint32_t rank) override;

  /// Handles the result of a part that another process has written; thread-safe. If it is the last part of the save,
  /// this call commits the checkpoint and blocks on the disk. A part that does not match the plan fails the save; a
  /// part that arrives twice, or after abandon(), is ignored. Errors: bad_input for a rank that no other process
  /// writes.
  core::result<void> take_part(part_result part);

  /// True if the checkpoint was committed or the save has failed.
  [[nodiscard]] bool is_over() const;
  /// Waits until the save is over and returns its report. If parts of the save can no longer begin or arrive, the
  /// caller must call abandon() first.
  save_report wait();
  /// Fails the save, because the run has failed: parts of this process that have not begun will not begin, and parts of
  /// other processes that have not arrived are no longer expected. A process that still writes then finds no folder; a
  /// file that it creates while the folder is being removed stays until remove_leftovers().
  void abandon(const core::error& why);
  /// Call in the leading process, at any time, when a loss that was computed with the saved states is finite. Older
  /// checkpoints are removed, as the request says, once this is called and the checkpoint is committed: by this call,
  /// or later by the thread that commits. Returns true if this call has removed them. Errors: those of the removal; the
  /// checkpoint is complete.
  core::result<bool> prove();
  [[nodiscard]] uint64_t step() const { return run_.step; }

 private:
  /// Writes the file of one rank of this process.
  class part;

  save_job(checkpoint::save_place place, std::optional<checkpoint::checkpoint_save> leads, save_request request,
           checkpoint::run_state run, save_content content, ranks_here here, tell_part tell);

  /// Marks the part of a rank as begun. Returns false if it was marked already, also by abandon().
  bool part_begun(uint32_t rank);
  /// Handles the end of the part of `rank`, whose result in parts_ must be complete; the last part ends the save.
  void part_ended(uint32_t rank);
  void commit_or_remove(bool good);
  core::result<void> remove_older();

  checkpoint::save_place place_;
  /// Folder and lock of the save if this process leads it; none: this process has joined a save, or the save is over.
  std::optional<checkpoint::checkpoint_save> leads_;
  save_request request_;
  checkpoint::run_state run_;
  save_content content_;
  ranks_here here_;
  /// Function that sends the results of parts to the leading process; empty unless this process joined.
  tell_part tell_;
  /// Results of the parts, by rank; each is written by the rank's lane or by take_part().
  std::vector<part_result> parts_;
  int64_t began_ns_;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  /// [rank]: true if the rank's part has begun or will not begin; for a rank of another process, true if its result has
  /// arrived
  std::vector<bool> begun_;
  uint32_t parts_left_ = 0;
  bool over_ = false;
  bool proved_ = false;     ///< true: prove() was called
  bool committed_ = false;  ///< true: the checkpoint is committed
  save_report report_;
};

}  // namespace troupe::actors
