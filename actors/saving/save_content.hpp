// The content of a save: which elements of which tensor are at which byte of which rank's file, and the manifest that
// lists them. Owns the computation of a manifest from plans; save_job.hpp owns the files and how the save ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/saving/part_result.hpp"
#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"
#include "core/tp_slices.hpp"
#include "job/step/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

class save_content {
 public:
  /// `plans`: plans of all ranks that save. `tensor`: how their parameters are split out of the whole model; empty:
  /// they are the whole model's. `groups`: optimizer groups, needed for the manifest only.
  save_content(plan::rank_plans plans, std::shared_ptr<const job::optimizer_groups> groups, job::chosen_tensor tensor,
               bool exclude_frozen)
      : plans_(plans.begin(), plans.end()),
        groups_(std::move(groups)),
        tensor_(std::move(tensor)),
        exclude_frozen_(exclude_frozen) {}

  [[nodiscard]] uint32_t ranks() const { return static_cast<uint32_t>(plans_.size()); }
  [[nodiscard]] const std::vector<plan::snapshot_block>& blocks(uint32_t rank) const { return plans_[rank]->snapshots; }
  [[nodiscard]] bool takes(uint32_t rank, uint32_t block) const {
    return !plans_[rank]->snapshots[block].frozen || !exclude_frozen_;
  }
  /// Returns the size in bytes of a rank's checkpoint file.
  [[nodiscard]] uint64_t file_bytes(uint32_t rank) const;

  /// The elements of a parameter, without padding, in one piece of states that a rank saves.
  struct own_elements {
    uint64_t first = 0, count = 0;   ///< first element, counted among those of the rank's share, and number of elements
    std::vector<core::tp_run> runs;  ///< runs of consecutive elements in the piece's memory
  };
  [[nodiscard]] own_elements own_of(uint32_t rank, const plan::saved_piece& x) const;

  /// Checks that the result of a part which reports success is complete: the length of its file, and a digest for every
  /// piece. Errors: mismatch.
  [[nodiscard]] core::result<void> check(const part_result& part) const;

  /// Returns the manifest of a save of the run state `run`. `parts`: results of the parts of all ranks, by rank, all of
  /// which must have succeeded.
  [[nodiscard]] checkpoint::manifest manifest_of(const checkpoint::run_state& run,
                                                 std::span<const part_result> parts) const;

 private:
  void add_piece(formats::tensor_entry& to, const part_result& part, uint32_t block, size_t piece) const;
  [[nodiscard]] core::parameter_cut cut_of(uint32_t parameter) const;

  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;
  std::shared_ptr<const job::optimizer_groups> groups_;
  job::chosen_tensor tensor_;
  bool exclude_frozen_;
};

}  // namespace troupe::actors
