// What a save's parts hold: which elements of which tensor lie at which byte of which rank's file, and the manifest
// that says so. Owns the way from plans to a manifest; save_job.hpp owns the files and how the save ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/saving/part_result.hpp"
#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"
#include "core/tp_slices.hpp"
#include "job/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::actors {

class save_content {
 public:
  /// `plans` are all ranks' plans that save, `tensor` is how their table is cut out of the whole model; empty: it is
  /// the whole model. `groups` are needed for the manifest alone.
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
  /// Of a rank's whole file.
  [[nodiscard]] uint64_t file_bytes(uint32_t rank) const;

  /// What a piece of a rank's memory has of the parameter: all but its padding.
  struct own_elements {
    uint64_t first = 0, count = 0;   ///< among all of the rank's share
    std::vector<core::tp_run> runs;  ///< of the piece's memory
  };
  [[nodiscard]] own_elements own_of(uint32_t rank, const plan::saved_piece& x) const;

  /// Whether a part that ended well is all of its rank's part: its file's length, a digest for every piece. Errors:
  /// mismatch.
  [[nodiscard]] core::result<void> check(const part_result& part) const;

  /// `parts` [rank], all of which ended well.
  [[nodiscard]] checkpoint::manifest manifest_of(const checkpoint::run_state& run,
                                                 std::span<const part_result> parts) const;

 private:
  void add_piece(checkpoint::tensor_entry& to, const part_result& part, uint32_t block, size_t piece) const;
  [[nodiscard]] core::parameter_cut cut_of(uint32_t parameter) const;

  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;
  std::shared_ptr<const job::optimizer_groups> groups_;
  job::chosen_tensor tensor_;
  bool exclude_frozen_;
};

}  // namespace troupe::actors
