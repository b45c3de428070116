// Finds one rank's states between steps, in memory or in the rank's swap file, and reads and writes any of their
// elements. All uses of states outside of a step go through this class. The caller owns the meaning of the elements,
// the session the times at which they may be used.
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

/// Number of elements that are converted at a time: limits the scratch memory for parameters of any size.
inline constexpr uint64_t state_window_elements = uint64_t{1} << 18;

/// Consecutive elements of one part of one parameter: at `at` in memory; if that is null, from `file_offset` on in the
/// swap file.
struct state_run {
  plan::slice range;
  std::byte* at = nullptr;
  uint64_t file_offset = 0;
  bool on_device = false;  ///< true: `at` is memory of a device that the host cannot access
};

/// Access to the states of one rank. Parts are a plan's: `copy` are the weights that gathers use, in the parameters'
/// type and whole below stage 3; `master` the weights that are updated, which are the same bytes if a parameter is its
/// own master weight. Between steps only; one thread may write, or any number of threads may read. `memory` must
/// outlive this object.
class state_store final : public state_source {
 public:
  explicit state_store(const rank_memory& memory) : memory_(memory) {}

  /// Returns the elements of `part` of `parameter` that this rank has: none if the parameter, frozen or not, has no
  /// such part.
  [[nodiscard]] plan::slice held(uint32_t parameter, plan::state_part part) const;
  [[nodiscard]] core::dtype type_of(plan::state_part part) const override;
  /// Returns where the elements of `range`, which the rank holds, are stored: as few runs as possible, in order; one
  /// run if all elements are in memory.
  [[nodiscard]] std::vector<state_run> runs(uint32_t parameter, plan::state_part part, plan::slice range) const;
  /// Returns null if the elements are in a file or on a device that the host cannot access: `read` and `write` reach
  /// them.
  [[nodiscard]] std::byte* in_memory(uint32_t parameter, plan::state_part part, plan::slice range) const override;
  /// True if some states of this rank are in a file.
  [[nodiscard]] bool swaps() const { return memory_.swap_file() != nullptr; }

  core::result<void> read(uint32_t parameter, plan::state_part part, uint64_t first,
                          std::span<std::byte> out) const override;
  /// Writes elements in their stored form, from `first` on. Weights in the file that are also cached in memory are
  /// written to both places.
  core::result<void> write(uint32_t parameter, plan::state_part part, uint64_t first,
                           std::span<const std::byte> in) const;
  /// read_as and write_as convert between the stored elements and `range.count` elements of `type`, rounding once.
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

/// Memory of all ranks of a model, in rank order.
using rank_memories = std::span<const std::shared_ptr<rank_memory>>;

/// Reads `range` of a part of a parameter as elements of `type`, rounded once, from the ranks that hold it; elements
/// that no rank holds are left unchanged in `out`. Errors: those of state_store::read_as.
core::result<void> read_states(rank_memories ranks, uint32_t parameter, plan::state_part part, plan::slice range,
                               core::dtype type, std::byte* out);
/// Writes `range` of a part of a parameter on every rank that holds some of it, so that ranks with the same elements
/// stay equal.
core::result<void> write_states(rank_memories ranks, uint32_t parameter, plan::state_part part, plan::slice range,
                                core::dtype type, const std::byte* in);

}  // namespace troupe::actors
