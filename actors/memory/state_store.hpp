// The places of one rank's states between steps, in memory or in the rank's swap file, and access to any of their
// elements. Everything that uses states outside of a step goes through it. The caller knows what the elements mean, the
// session when they may be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/memory/rank_memory.hpp"
#include "actors/memory/state_source.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Elements that are converted at a time: bounds the scratch memory whatever a parameter's size.
inline constexpr uint64_t state_window_elements = uint64_t{1} << 18;

/// Consecutive elements of one part of one parameter: at `at` in memory, or, if that is null, from `file_offset` on in
/// the swap file.
struct state_run {
  plan::slice range;
  std::byte* at = nullptr;
  uint64_t file_offset = 0;
  bool on_device = false;  ///< `at` is memory of a device that the host does not reach
};

/// Parts are a plan's: `copy` are the weights as gathers use them, in the parameters' type and whole below stage 3;
/// `master` those that are updated, which are the same bytes where a parameter is its own master weight. Between steps
/// only, from one thread at a time; reading is free to any number of them. The memory outlives it.
class state_store final : public state_source {
 public:
  explicit state_store(const rank_memory& memory) : memory_(memory) {}

  /// The elements of `part` of `parameter` that this rank has: none if the parameter, frozen or not, has no such part.
  [[nodiscard]] plan::slice held(uint32_t parameter, plan::state_part part) const;
  [[nodiscard]] core::dtype type_of(plan::state_part part) const override;
  /// The places of `range`, which the rank holds, in order, each run as long as possible: one run if all is in memory.
  [[nodiscard]] std::vector<state_run> runs(uint32_t parameter, plan::state_part part, plan::slice range) const;
  /// Null where the elements are in a file or on a device that the host does not reach: then `read` and `write` serve.
  [[nodiscard]] std::byte* in_memory(uint32_t parameter, plan::state_part part, plan::slice range) const override;
  /// Whether some states of this rank lie in a file.
  [[nodiscard]] bool swaps() const { return memory_.swap_file() != nullptr; }

  core::result<void> read(uint32_t parameter, plan::state_part part, uint64_t first,
                          std::span<std::byte> out) const override;
  /// Writes, as `read` reads. Copies of weights that stay in memory beside the file are written too.
  core::result<void> write(uint32_t parameter, plan::state_part part, uint64_t first,
                           std::span<const std::byte> in) const;
  /// The same as elements of `type`, rounded once; `range.count` of them.
  core::result<void> read_as(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                             std::byte* out) const;
  core::result<void> write_as(uint32_t parameter, plan::state_part part, plan::slice range, core::dtype type,
                              const std::byte* in) const;

  [[nodiscard]] const plan::rank_plan& plan() const { return memory_.plan(); }

 private:
  [[nodiscard]] bool are_weights(plan::state_part part) const;
  [[nodiscard]] bool may_be_swapped(plan::state_part part) const;
  [[nodiscard]] bool on_device(plan::state_part part) const;
  [[nodiscard]] plan::owned_piece piece_of(uint32_t parameter, plan::slice range) const;
  [[nodiscard]] std::byte* resident(uint32_t parameter, plan::state_part part, plan::slice range) const;
  core::result<void> copy_and_wait(std::byte* to, const std::byte* from, uint64_t bytes) const;
  core::result<void> read_file(uint64_t offset, std::span<std::byte> out) const;
  core::result<void> write_file(uint64_t offset, std::span<const std::byte> in) const;
  core::result<void> refresh_caches(uint32_t parameter, plan::slice range, const std::byte* weights) const;

  const rank_memory& memory_;
};

/// The ranks of a model as one, in rank order.
using rank_memories = std::span<const std::shared_ptr<rank_memory>>;

/// Reads `range` of a part of a parameter as elements of `type`, rounded once, from the ranks that hold it; elements
/// that no rank holds stay as they are in `out`. Errors: as state_store.
core::result<void> read_states(rank_memories ranks, uint32_t parameter, plan::state_part part, plan::slice range,
                               core::dtype type, std::byte* out);
/// Writes them: on every rank that holds some of `range`, so that ranks that hold the same elements stay equal.
core::result<void> write_states(rank_memories ranks, uint32_t parameter, plan::state_part part, plan::slice range,
                                core::dtype type, const std::byte* in);

}  // namespace troupe::actors
