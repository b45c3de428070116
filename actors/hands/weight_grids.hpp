// Weights of a stage's units on their grids, as `compress` writes them and as the gradients of learned masks need them
// once more. Owns which grid acts now and a tensor rank's way to the ranges of its groups; masks are not decided here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/step_context.hpp"
#include "core/dtype.hpp"
#include "job/compression/compression.hpp"

namespace troupe::actors {

/// Not thread-safe: one stage's own.
class weight_grids {
 public:
  /// `seed`: of the noise that weights are rounded with.
  weight_grids(std::shared_ptr<const job::chosen_compression> chosen, uint64_t seed)
      : chosen_(std::move(chosen)), seed_(seed) {}

  /// A run begins.
  void begin(std::shared_ptr<step_context> context) { context_ = std::move(context); }

  /// Whether unit `unit` multiplies with the parameter on a grid.
  [[nodiscard]] bool changes(uint32_t unit, uint32_t parameter) const { return begun(unit, parameter) != nullptr; }
  /// Elements of room that put() then takes, beside those that it writes.
  [[nodiscard]] uint64_t room_elements(uint32_t unit, uint32_t parameter) const {
    return begun(unit, parameter)->use.room_elements;
  }
  /// What this rank tells of the parameter at `from`, whose groups tensor ranks share, from `to` on; how much that is.
  /// `agreed`: what all have told, where it is the second time.
  uint64_t tell(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from,
                kernels::value_range<double>* to);
  /// `to` = the parameter at `from` as unit `unit` multiplies with it but for masks: on its grid, or as it is where
  /// none has begun. `agreed`: the ranges of the unit's groups that tensor ranks share, of all of them.
  void put(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from, std::byte* to,
           std::span<std::byte> room);

 private:
  using range = kernels::value_range<double>;
  [[nodiscard]] const plan::rank_plan& p() const { return context_->plan(); }
  /// Null: it has none, or none that has begun.
  [[nodiscard]] const job::compressed_module* begun(uint32_t unit, uint32_t parameter) const;
  void take_agreed(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed);

  std::shared_ptr<const job::chosen_compression> chosen_;
  uint64_t seed_;
  std::shared_ptr<step_context> context_;
  std::vector<range> ranges_;  // of a parameter's groups, of every tensor rank
};

}  // namespace troupe::actors
