// Executes the instructions of the shard lane: square sums of the gradients that this rank owns, and the optimizer on
// the states that it owns. The arithmetic runs where the states are: on the device or on the host.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actors/executor.hpp"
#include "actors/hands/host_team.hpp"
#include "actors/hands/late_updater.hpp"
#include "actors/hands/weight_uploads.hpp"
#include "actors/memory/rank_memory.hpp"
#include "job/step/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

class shard_executor final : public executor {
 public:
  /// `tensor`: how parameters are split over tensor-parallel ranks. `host_threads`: number
  /// of threads for updates that the host computes although the model computes on a device; in a job on the CPU the
  /// lane's thread updates alone.
  shard_executor(std::shared_ptr<rank_memory> memory, std::shared_ptr<const job::optimizer_groups> groups,
                 job::chosen_tensor tensor = {}, uint32_t host_threads = 1)
      : memory_(std::move(memory)),
        groups_(std::move(groups)),
        tensor_(std::move(tensor)),
        states_(kernels::operations_of(device_of_states())),
        late_(memory_->device()),
        uploads_(memory_->device()),
        team_(tiers().updates_on_host() ? host_threads : 1) {}

  void begin(std::shared_ptr<step_context> context) override {
    context_ = std::move(context);
    if (std::exchange(loads_, context_->order.loads) != context_->order.loads) late_.begin_afresh();
  }
  core::result<progress> start(const plan::instruction& x) override;
  core::result<std::optional<uint32_t>> advance(uint64_t) override { return std::nullopt; }

 private:
  [[nodiscard]] const plan::tier_options& tiers() const { return memory_->plan().options().tiers; }
  [[nodiscard]] device::device_id device_of_states() const {
    return tiers().updates_on_host() ? device::device_id{} : memory_->device();
  }
  void square_sums(const plan::instruction& x);
  /// Executes `tied_sum`: adds the gradients of all uses of a tied parameter, and writes the sum to each use that this
  /// rank holds.
  void add_uses(const plan::instruction& sum);
  /// Returns an error if the vote has found a gradient that is not finite. Call before an update changes states.
  [[nodiscard]] core::result<void> sound() const;
  template <class State>
  void prepare(const plan::instruction& x);
  template <class State>
  [[nodiscard]] core::result<void> orthogonalise(const plan::instruction& x);
  /// Returns all elements of the update direction of matrix `parameter`, in order: in the slot of `x`, or, if a tensor
  /// group shares the matrix, joined in `scratch` from the ranks' parts in that slot.
  template <class State>
  [[nodiscard]] std::span<State> joined(const plan::instruction& x, uint32_t parameter, std::span<State> scratch);
  /// Copies each tensor-parallel rank's part of `matrix`, which joined() has joined, back into the slot of `x`.
  template <class State>
  void deal(const plan::instruction& x, uint32_t parameter, std::span<const State> matrix);
  template <class State>
  void update(const plan::instruction& x);
  /// Updates pieces whose optimizers need only the values of the pieces' own elements (not LAMB or Muon).
  template <class State>
  void update_elements(std::span<const kernels::piece_update<State>> all);
  /// If states were updated in a window, copies the pieces' new weights to the slices of parameters that are cached in
  /// memory.
  void refresh_cached(const std::vector<plan::owned_piece>& pieces, std::byte* window);
  /// Changes the moving average of the new weights of `pieces` by them, if the run keeps one and this update changes
  /// it; `window`: the window that holds their states, or null.
  template <class State>
  void average(const std::vector<plan::owned_piece>& pieces, std::byte* window);
  /// Updates before the vote, with the gradient scale of a step that is not clipped, and copies the states that it
  /// overwrites to the undo pool if the update may be undone.
  template <class State>
  void speculate(const plan::instruction& x);
  /// Restores the states of sub-group `group` (elements that one instruction updates) from their undo copies, after an
  /// update before the vote.
  template <class State>
  void take_back(uint32_t group);
  /// Copies the states of `piece` that are in memory (the others are in the swap file) to the undo copy at `kept`
  /// (make), or from there back to their place (put_back). Returns the address of the next piece's undo copy.
  enum class undo_copy : uint8_t { make, put_back };
  std::byte* undo_in_memory(undo_copy what, uint32_t group, const plan::owned_piece& piece, std::byte* kept);
  [[nodiscard]] core::result<void> undo(const plan::instruction& x);
  [[nodiscard]] kernels::optimizer_options options_of(uint32_t parameter) const;
  [[nodiscard]] kernels::optimizer_step step_of(uint32_t parameter) const;
  [[nodiscard]] double trust_ratio(const kernels::lamb_options& options, uint32_t parameter) const;
  [[nodiscard]] const std::byte* new_weights(const plan::owned_piece& piece, std::byte* window) const;
  /// Returns the address, in the slot of `x`, of the part of the update direction of matrix `parameter` that the rank
  /// with tensor coordinate `tensor` holds.
  template <class State>
  [[nodiscard]] State* direction(const plan::instruction& x, uint32_t set, uint32_t parameter, uint32_t tensor) const;
  /// Divides `count` elements into runs and calls f(first element, number of elements) for each: one run in a job on
  /// the CPU, or several runs on the threads of `team_` if the host updates for a device. All runs but the last consist
  /// of whole blocks of the gradient norm.
  void shared_out(uint64_t count, auto f);
  /// Calls update(run, index of its first element) for runs of `piece`: one run, or several if the host updates for a
  /// device.
  template <class State, class F>
  void in_runs(const kernels::optimizer_piece<State>& piece, F update);
  template <class State>
  [[nodiscard]] kernels::optimizer_piece<State> at(const plan::owned_piece& piece, std::byte* window = nullptr) const;

  std::shared_ptr<rank_memory> memory_;
  std::shared_ptr<const job::optimizer_groups> groups_;
  job::chosen_tensor tensor_;
  const kernels::operations& states_;
  device::memory scratch_;  // scratch memory of orthogonalise, with room for the largest matrix and for its joined copy
  late_updater late_;
  device::event norms_written_;  // recorded when the kernels of `prepare`, whose norms the host reads, are enqueued
  weight_uploads uploads_;
  host_team team_;
  uint64_t loads_ = 0;
  std::shared_ptr<step_context> context_;
};

/// Returns the name of the first parameter, in the table's order, that has a square sum in `votes` that is not finite.
/// Pure.
std::string first_nonfinite_parameter(const plan::rank_plan& p, std::span<const double> votes);

}  // namespace troupe::actors
