// Executes the instructions of the shard lane: square sums of this rank's part, and the optimizer. The arithmetic runs
// where the states are: on the device or on the host.
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
#include "job/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

class shard_executor final : public executor {
 public:
  /// `tensor`: how parameters are cut, if ranks of a tensor group have shares of them. `host_threads`: number of
  /// threads for updates that the host computes for a device; on the CPU the lane's thread updates alone.
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
  /// Adds the gradients of the uses of a tied parameter.
  void add_uses(const plan::instruction& sum);
  /// Returns an error for a gradient that is not finite; nothing has been changed at this time.
  [[nodiscard]] core::result<void> sound() const;
  template <class State>
  void prepare(const plan::instruction& x);
  template <class State>
  [[nodiscard]] core::result<void> orthogonalise(const plan::instruction& x);
  /// Returns all elements of a matrix in their order: in place, or joined in scratch from the shares of a tensor group.
  template <class State>
  [[nodiscard]] std::span<State> joined(const plan::instruction& x, uint32_t parameter, std::span<State> scratch);
  /// Copies a matrix that `joined` has returned back to the shares.
  template <class State>
  void deal(const plan::instruction& x, uint32_t parameter, std::span<const State> matrix);
  template <class State>
  void update(const plan::instruction& x);
  /// Updates with optimizers that need no values of whole parameters.
  template <class State>
  void update_elements(std::span<const kernels::piece_update<State>> all);
  /// Copies new weights of pieces that were updated in `window` to the slices that are cached in memory.
  void refresh_cached(const std::vector<plan::owned_piece>& pieces, std::byte* window);
  /// Updates before the vote, as if the vote clipped nothing, and keeps a copy of the data that it overwrites.
  template <class State>
  void speculate(const plan::instruction& x);
  /// Restores the states of sub-group `group` to their values before the speculative update.
  template <class State>
  void take_back(uint32_t group);
  /// Copies the memory that an update overwrites, for a piece whose states are in files, to its undo copy at `kept`, or
  /// back from there. Returns the begin of the next piece's copy.
  enum class undo_copy : uint8_t { make, put_back };
  std::byte* undo_in_memory(undo_copy what, uint32_t group, const plan::owned_piece& piece, std::byte* kept);
  [[nodiscard]] core::result<void> undo(const plan::instruction& x);
  [[nodiscard]] kernels::optimizer_options options_of(uint32_t parameter) const;
  [[nodiscard]] kernels::optimizer_step step_of(uint32_t parameter) const;
  [[nodiscard]] double trust_ratio(const kernels::lamb_options& options, uint32_t parameter) const;
  [[nodiscard]] const std::byte* new_weights(const plan::owned_piece& piece, std::byte* window) const;
  /// Returns the share of tensor coordinate `tensor` of a matrix in the slot of an instruction.
  template <class State>
  [[nodiscard]] State* direction(const plan::instruction& x, uint32_t set, uint32_t parameter, uint32_t tensor) const;
  /// Divides `count` elements into runs and calls f(first, number of elements) for each: one run for all, or several
  /// runs on the threads of the host's team. All runs but the last consist of whole blocks of the gradient norm.
  template <class F>
  void shared_out(uint64_t count, F f);
  /// Calls update(run, first) for `piece`: once, or run by run if the host updates for the device.
  template <class State, class F>
  void in_runs(const kernels::optimizer_piece<State>& piece, F update);
  template <class State>
  [[nodiscard]] kernels::optimizer_piece<State> at(const plan::owned_piece& piece, std::byte* window = nullptr) const;

  std::shared_ptr<rank_memory> memory_;
  std::shared_ptr<const job::optimizer_groups> groups_;
  job::chosen_tensor tensor_;
  const kernels::operations& states_;
  device::memory scratch_;  // scratch of orthogonalise; sized for the largest matrix and for a joined one
  late_updater late_;
  device::event norms_written_;  // recorded after kernels of `prepare` have written norms, which the host reads
  weight_uploads uploads_;
  host_team team_;
  uint64_t loads_ = 0;
  std::shared_ptr<step_context> context_;
};

/// Returns the first parameter, in the table's order, with a square sum that is not finite. Pure.
std::string first_nonfinite_parameter(const plan::rank_plan& p, std::span<const double> votes);

}  // namespace troupe::actors
