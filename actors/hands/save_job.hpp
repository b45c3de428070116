// One checkpoint from the first snapshot to its commit, shared by the writer lanes of all ranks. Owns the files, the
// digests and the commit or failure; the plan and the lane decide when a block is copied and handed over.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/hands/save_part.hpp"
#include "actors/hands/save_request.hpp"
#include "checkpoint/commit/commit.hpp"
#include "core/tp_slices.hpp"
#include "job/optimizer_groups.hpp"
#include "job/tensor.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

class save_job final : public save_target, public std::enable_shared_from_this<save_job> {
 public:
  /// Makes the working folder. `plans` are all ranks' plans that save, `tensor` is how their table is cut out of the
  /// whole model; empty: it is the whole model. Errors: io, no_space (needed and free bytes);
  /// nothing is left behind then.
  static core::result<std::shared_ptr<save_job>> begin(checkpoint::file_system& files, save_request request,
                                                       checkpoint::run_state run, plan::rank_plans plans,
                                                       std::shared_ptr<const job::optimizer_groups> groups,
                                                       job::chosen_tensor tensor = {});

  save_job(checkpoint::checkpoint_save save, save_request request, checkpoint::run_state run, plan::rank_plans plans,
           std::shared_ptr<const job::optimizer_groups> groups, job::chosen_tensor tensor,
           checkpoint::file_system& files);

  std::unique_ptr<save_part> begin_part(uint32_t rank) override;

  /// Committed or failed.
  [[nodiscard]] bool is_over() const;
  /// Blocks until it is over. The caller must first abandon parts that will never be begun.
  save_report wait();
  /// The run has failed: parts that were not begun never will be.
  void abandon(const core::error& why);
  [[nodiscard]] uint64_t step() const { return run_.step; }

 private:
  /// One rank's file.
  class part;

  void fail(core::error why);
  /// False where the save was abandoned before.
  bool part_begun(uint32_t rank);
  void part_ended(uint32_t rank, uint64_t file_bytes, double waited_s);
  core::result<std::filesystem::path> commit();
  [[nodiscard]] checkpoint::manifest content() const;
  void add_piece(checkpoint::tensor_entry& to, uint32_t rank, uint32_t block, size_t piece) const;
  [[nodiscard]] core::parameter_cut cut_of(uint32_t parameter) const;

  /// What a piece of a rank's memory has of the parameter: all but its padding.
  struct own_elements {
    uint64_t first = 0, count = 0;   ///< among all of the rank's share
    std::vector<core::tp_run> runs;  ///< of the piece's memory
  };
  [[nodiscard]] own_elements own_of(uint32_t rank, const plan::saved_piece& x) const;

  checkpoint::file_system& files_;
  std::optional<checkpoint::checkpoint_save> save_;
  save_request request_;
  checkpoint::run_state run_;
  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;
  std::shared_ptr<const job::optimizer_groups> groups_;
  job::chosen_tensor tensor_;
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
