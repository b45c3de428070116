// Writes one checkpoint, from the first snapshot to its commit, shared by the writer lanes of all ranks, of one process
// or of several. The process that leads begins, commits, retains and removes; the other processes join it, write the
// files of their own ranks into the leading process's working folder, and report how each file ended. Owns the files,
// the digests and the commit or failure; the plan and the lane decide when a block is copied and handed over, and the
// caller transports invitations and results between processes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
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
#include "job/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

/// [rank]: true if this process writes the rank's file. Empty: this process writes the files of all ranks. The leading
/// process may write no file.
using ranks_here = std::vector<bool>;

/// One checkpoint while it is being written, as one process of the job takes part in it.
class save_job final : public save_target, public std::enable_shared_from_this<save_job> {
 public:
  /// Called once for each rank of this process when its part ends, well or not, on the thread that ends it.
  using tell_part = std::function<void(const part_result&)>;

  /// Leads a save: creates the working folder. `plans` are all ranks' plans that save; `tensor` describes how their
  /// table is cut out of the whole model; empty: it is the whole model. take_part() receives the parts of ranks that
  /// are not `here`. Errors: io, no_space (needed and free bytes, of all ranks); nothing is left on the disk then.
  static core::result<std::shared_ptr<save_job>> begin(checkpoint::file_system& files, save_request request,
                                                       checkpoint::run_state run, plan::rank_plans plans,
                                                       std::shared_ptr<const job::optimizer_groups> groups,
                                                       job::chosen_tensor tensor = {}, ranks_here here = {});

  /// Joins a save that another process leads, with its request, step and plans. Writes the files of the ranks `here`,
  /// at least one, and is over when the last of them has been reported; its report has no folder.
  static std::shared_ptr<save_job> join(checkpoint::file_system& files, const save_invitation& invitation,
                                        const save_request& request, uint64_t step, plan::rank_plans plans,
                                        job::chosen_tensor tensor, ranks_here here, tell_part tell);

  /// Returns the data that other processes need in order to join; valid until the save is over.
  [[nodiscard]] save_invitation invitation() const { return {place_.working, place_.save_id}; }

  [[nodiscard]] const save_request& request() const { return request_; }

  std::unique_ptr<save_part> begin_part(uint32_t rank) override;

  /// Handles the result of a rank's part that another process writes; thread-safe. The last part of the save commits,
  /// and the call then blocks on the disk. A part that does not match the plan fails the save; a part that comes after
  /// abandon(), or twice, is ignored. Errors: bad_input for a rank that no other process writes.
  core::result<void> take_part(part_result part);

  /// True if the checkpoint was committed or the save has failed.
  [[nodiscard]] bool is_over() const;
  /// Waits until the save is over. The caller must first abandon parts that will never be begun, or never come.
  save_report wait();
  /// Fails the save after the run has failed: parts of this process that were not begun will never be begun, and parts
  /// of other processes that were not received are no longer expected. A process that still writes then finds no
  /// folder; a file that it creates at the moment of the folder's removal stays until remove_leftovers().
  void abandon(const core::error& why);
  [[nodiscard]] uint64_t step() const { return run_.step; }

 private:
  /// The file of one rank.
  class part;

  save_job(checkpoint::save_place place, std::optional<checkpoint::checkpoint_save> leads, save_request request,
           checkpoint::run_state run, save_content content, ranks_here here, tell_part tell);

  /// Marks a rank's part as begun. Returns false if it was before, or the save was abandoned.
  bool part_begun(uint32_t rank);
  /// Handles the end of a rank's part, whose result parts_[rank] must be complete.
  void part_ended(uint32_t rank);
  void commit_or_remove(bool good);

  checkpoint::save_place place_;
  /// The save that this process leads; none: this process joined another's save, or the save is over.
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
  /// [rank]: true if the writing of the rank's file has begun; for a rank of another process, true if the result of its
  /// file was received
  std::vector<bool> begun_;
  uint32_t parts_left_ = 0;
  bool over_ = false;
  save_report report_;
};

}  // namespace troupe::actors
