// One checkpoint from the first snapshot to its commit: what the writer lanes of all ranks share. Owns the files, the
// digests and the end, right or wrong; when a block is copied and handed over is the plan's and the lane's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/hands/save_request.hpp"
#include "checkpoint/commit/commit.hpp"
#include "job/optimizer_groups.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

class save_job {
 public:
  /// Makes the working folder. `plans` are those that save, of all ranks. Errors: io, no_space (needed and free bytes);
  /// nothing is left behind then.
  static core::result<std::shared_ptr<save_job>> begin(checkpoint::file_system& files, save_request request,
                                                       checkpoint::run_state run, plan::rank_plans plans,
                                                       std::shared_ptr<const job::optimizer_groups> groups);

  save_job(checkpoint::checkpoint_save save, save_request request, checkpoint::run_state run, plan::rank_plans plans,
           std::shared_ptr<const job::optimizer_groups> groups, checkpoint::file_system& files);

  /// One rank's file. Used by the rank's writer lane alone; ended when it is destroyed, if not before.
  class part {
   public:
    part(std::shared_ptr<save_job> job, uint32_t rank);
    ~part();
    part(const part&) = delete;
    part& operator=(const part&) = delete;

    /// Whether this save takes block `b`; the others are neither copied nor written.
    [[nodiscard]] bool takes(uint32_t b) const;
    /// Copies a piece of block `b` and notes the digest. `to` has room for padding up to the block's next boundary.
    void copy(uint32_t b, std::span<const std::byte> from, std::byte* to);
    /// The same where `read` fills the piece's place in the slot itself; what it cannot read ends the save.
    void fetch(uint32_t b, std::span<std::byte> to,
               const std::function<core::result<void>(std::span<std::byte>)>& read);
    /// Hands block `b`, padded, to the disk; its memory is free again once `settle(b)` has returned.
    void write(uint32_t b, std::span<const std::byte> block);
    /// Returns when block `b` is on its way no more; what it waited counts as backpressure.
    void settle(uint32_t b);
    /// Waits for all writes and syncs the file; the last part to end commits. Blocks for the disk.
    void end();
    /// The save comes to nothing. The training's own failure is no failure of the save that is reported twice.
    void fail(core::error why);

   private:
    [[nodiscard]] bool sound() const { return file_ != nullptr; }

    std::shared_ptr<save_job> job_;
    uint32_t rank_;
    std::unique_ptr<checkpoint::output_file> file_;  // null: not open, or the save has failed
    std::vector<std::optional<uint64_t>> tickets_;   // [block]
    double waited_s_ = 0;
    bool opened_ = false, ended_ = false;
    void open();
  };

  /// Committed or failed.
  [[nodiscard]] bool is_over() const;
  /// Blocks until it is over. Parts that nobody has begun or will begin are the caller's to abandon first.
  save_report wait();
  /// The run has failed: parts that were not begun never will be.
  void abandon(const core::error& why);
  [[nodiscard]] uint64_t step() const { return run_.step; }

 private:
  void fail(core::error why);
  /// False where the save was abandoned before.
  bool part_begun(uint32_t rank);
  void part_ended(uint32_t rank, uint64_t file_bytes, double waited_s);
  core::result<std::filesystem::path> commit();
  [[nodiscard]] checkpoint::manifest content() const;

  checkpoint::file_system& files_;
  std::optional<checkpoint::checkpoint_save> save_;
  save_request request_;
  checkpoint::run_state run_;
  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;
  std::shared_ptr<const job::optimizer_groups> groups_;
  std::vector<std::vector<std::vector<checkpoint::digest128>>> digests_;  // [rank][block][piece], by the rank's lane
  std::vector<uint64_t> file_bytes_;                                      // [rank]
  int64_t began_ns_;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<bool> begun_;  // [rank]
  uint32_t parts_left_;
  bool over_ = false;
  save_report report_;
};

}  // namespace troupe::actors
