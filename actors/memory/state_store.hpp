// Finds the states (weights, moments, gradients) of one rank between steps, in memory or in the rank's swap file, and
// reads and writes any of their elements. Every access to states outside of a step uses this class. The caller knows
// the meaning of the elements, and the session decides when states may be accessed.
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

/// Number of elements that are converted at a time, which limits the scratch memory for parameters of any size.
inline constexpr uint64_t state_window_elements = uint64_t{1} << 18;

/// Consecutive elements `range` of one kind of state of one parameter: in memory at `at`, or, if that is null, in the
/// swap file from byte `file_offset` on.
struct state_run {
  plan::slice range;
  std::byte* at = nullptr;
  uint64_t file_offset = 0;
  bool on_device = false;  ///< true: `at` is memory of a device that the host cannot access
};

/// Access to the states of one rank. Kinds of states are those of the plan (plan::state_part): `copy` is the weights
/// that the forward pass uses, in the parameters' type, whole at ZeRO stages below 3; `master` is the weights that the
/// optimizer updates, which are the same bytes if a parameter is its own master weight. Use between steps only; one
/// thread may write, or any number of threads may read. `memory` must outlive this object.
class state_store final : public state_source {
 public:
  explicit state_store(const rank_memory& memory) : memory_(memory) {}

  /// Returns the range of elements of state `part` of `parameter` that this rank holds; empty if it holds none, or if
  /// the parameter has no such state (moments of a frozen parameter, for example).
  [[nodiscard]] plan::slice held(uint32_t parameter, plan::state_part part) const;
  [[nodiscard]] core::dtype type_of(plan::state_part part) const override;
  /// Returns where the elements of `range`, all of which the rank must hold, are stored: as few runs of consecutive
  /// elements as possible, in order; one run if all are in memory.
  [[nodiscard]] std::vector<state_run> runs(uint32_t parameter, plan::state_part part, plan::slice range) const;
  /// Returns the address of the elements in host memory; null if they are in a file, in several places, or on a device
  /// that the host cannot access: use read() and write() for these.
  [[nodiscard]] std::byte* in_memory(uint32_t parameter, plan::state_part part, plan::slice range) const override;
  /// True if some states of this rank are in a file.
  [[nodiscard]] bool swaps() const { return memory_.swap_file() != nullptr; }

  core::result<void> read(uint32_t parameter, plan::state_part part, uint64_t first,
                          std::span<std::byte> out) const override;
  /// Writes elements from `first` on, given in the type in which they are stored. Weights in the swap file that are
  /// also cached in memory are written to both.
  core::result<void> write(uint32_t parameter, plan::state_part part, uint64_t first,
                           std::span<const std::byte> in) const;
  /// read_as() and write_as() convert between the stored elements of `range` and elements of `type`, rounding once.
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

/// [rank]: memory of each rank that holds a part of the model.
using rank_memories = std::span<const std::shared_ptr<rank_memory>>;

/// Reads elements `range` of state `part` of a parameter from the ranks that hold them, as elements of `type`, rounded
/// once. Elements that no rank holds are left unchanged in `out`. Errors: those of state_store::read_as.
core::result<void> read_states(rank_memories ranks, uint32_t parameter, plan::state_part part, plan::slice range,
                               core::dtype type, std::byte* out);
/// Writes elements `range` of state `part` of a parameter on every rank that holds some of them, so that ranks with the
/// same elements stay equal.
core::result<void> write_states(rank_memories ranks, uint32_t parameter, plan::state_part part, plan::slice range,
                                core::dtype type, const std::byte* in);

}  // namespace troupe::actors
