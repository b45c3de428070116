// The memory of one rank: one pool per owner, sized by the plan, allocated as long as it may be read. Owns addresses;
// the plan decides which bytes are used when.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/memory/shared_pools.hpp"
#include "device/memory.hpp"
#include "plan/layout/layout.hpp"
#include "plan/rank_plan.hpp"
#include "storage/swap/swap_file.hpp"

namespace troupe::actors {

/// The device of a rank, and the tier of its windows onto files: huge, or pinned as far as the system permits.
struct memory_place {
  device::device_id device{};
  device::tier windows = device::tier::huge;
  /// Segment for pools that ranks of other processes access; empty: all pools belong to this process.
  shared_segment shared{};
  /// False: the rank is in another process, and only its shared pools are mapped here.
  bool is_here = true;
};

/// Reads or writes states of a rank of another process, converted to elements of a type.
struct states_elsewhere {
  std::function<core::result<void>(uint32_t parameter, plan::state_part, plan::slice, core::dtype, std::byte*)> read;
  std::function<core::result<void>(uint32_t parameter, plan::state_part, plan::slice, core::dtype, const std::byte*)>
      write;
};

class rank_memory {
 public:
  /// Allocates memory for `trains`, and for every other plan of the same rank whose pools are no larger.
  static core::result<std::shared_ptr<rank_memory>> allocate(std::shared_ptr<const plan::rank_plan> trains,
                                                             const plan::pool_sizes& sizes,
                                                             const memory_place& place = {});

  /// Switches training to another plan with the same places of states. Between steps only: contents of slots are lost
  /// if the pool of slots grows. Errors: no memory (nothing has changed then), or a pool of slots that files use would
  /// have to grow.
  core::result<void> train_by(std::shared_ptr<const plan::rank_plan> trains, const plan::pool_sizes& sizes);

  [[nodiscard]] device::device_id device() const { return place_.device; }
  /// True if this process has all of the rank's memory.
  [[nodiscard]] bool is_here() const { return place_.is_here; }
  /// Returns the functions that access the rank's states if its memory is in another process.
  [[nodiscard]] const states_elsewhere& elsewhere() const { return elsewhere_; }
  void use_elsewhere(states_elsewhere x) { elsewhere_ = std::move(x); }
  /// Returns the first byte of a pool; null if it is empty, as staging is before `take_staging`. Parameters are stored
  /// in their own layout: full at stages 0 to 2, this rank's slices at stage 3. Slots and undo copies are where the
  /// plan places them.
  [[nodiscard]] std::byte* at(plan::pool which) const { return pool(which).data(); }
  /// Returns the whole pool, for moving it while nothing runs.
  [[nodiscard]] const device::memory& pool(plan::pool which) const { return pools_[static_cast<size_t>(which)]; }
  /// Returns the reason why windows that should be pinned are not; nullopt if they are, or need not be.
  [[nodiscard]] std::optional<std::string> unpinned() const;

  /// Returns the address of element `first` of `parameter`, which this rank must hold.
  [[nodiscard]] std::byte* parameter(uint32_t parameter, uint64_t first) const;
  /// votes() and norms() return the memory for square sums and losses of all ranks, and for LAMB's norms: enough for
  /// any plan.
  [[nodiscard]] std::span<double> votes() const { return numbers_in(plan::pool::votes); }
  [[nodiscard]] std::span<double> norms() const { return numbers_in(plan::pool::norms); }
  /// Allocates the staging pool; call before the first run that saves. Later calls do nothing.
  core::result<void> take_staging();
  /// Returns the address of the master weight of a piece's first element; fp32, fp64 in reference mode. If it is
  /// swapped: in `window`, which holds the piece's sub-group; null without `window`.
  [[nodiscard]] std::byte* master(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// Returns the address of a piece's first (0) or second (1) moment; if swapped, in `window`. Null if the optimizer of
  /// this parameter has no such moment.
  [[nodiscard]] std::byte* moment(const plan::owned_piece& piece, uint32_t which, std::byte* window = nullptr) const;
  /// Returns the address of the piece's copy in the 16-bit parameter type; in `window` if the states are swapped.
  [[nodiscard]] std::byte* copy(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// Returns the address of a piece's reduced gradient after the step's last reduction; if swapped, in `window`.
  [[nodiscard]] std::byte* gradient(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// Returns the address of the reduced gradient of element `first` of `parameter`, before its update; if swapped, in
  /// its bucket's `window`.
  [[nodiscard]] std::byte* reduced_gradient(uint32_t parameter, uint64_t first, std::byte* window = nullptr) const;
  /// Returns the start of this rank's part of the reduced gradient of `parameter`, after the last reduction of `p`, one
  /// of the plans that this memory was allocated for.
  [[nodiscard]] std::byte* last_gradient(const plan::rank_plan& p, uint32_t parameter) const;

  /// Returns slot `buffer` of `p`, one of the plans that this memory was allocated for.
  [[nodiscard]] std::byte* window(const plan::rank_plan& p, uint32_t buffer) const;
  /// Returns all windows, for registering them with a queue.
  [[nodiscard]] std::vector<std::span<std::byte>> windows() const;
  /// Returns this rank's slices of gather set `set`, in the layout of plan::shard_runs; null if they are only in the
  /// file.
  [[nodiscard]] std::byte* cached(uint32_t set) const;
  /// Returns the weights of a piece in the first cached set that holds them; null if no set does.
  [[nodiscard]] std::byte* cached_weights(const plan::owned_piece& piece) const;
  /// Copies new weights of a piece into every cached set that holds them.
  void refresh_cached(const plan::owned_piece& piece, const std::byte* weights) const;

  /// Copies this rank's part of gather set `set`, which is whole at `gathered`, to the second copy of parameters.
  void keep_near(const plan::rank_plan& p, uint32_t set, const std::byte* gathered) const;

  /// Returns the swap file; null if nothing is swapped.
  [[nodiscard]] const std::shared_ptr<storage::swap_file>& swap_file() const { return swap_file_; }
  void use_swap_file(std::shared_ptr<storage::swap_file> file) { swap_file_ = std::move(file); }
  /// Counts a write to the swap file that may outlive its step; the io lane calls write_begins and write_ends.
  void write_begins() { writes_under_way_.fetch_add(1, std::memory_order_relaxed); }
  void write_ends(const std::optional<core::error>& failure = {});
  /// Waits until no write is running: all data that steps have written can then be read. Callable on any thread but the
  /// io lane's. Errors: that of the first failed write, in all later calls.
  [[nodiscard]] core::result<void> settle_writes() const;

  /// Returns the number (0 or 1) of the place in the swap file that holds the valid states; 0 if states have one place.
  /// A step that updates states writes them to the other place; the rank then calls change_place, before any other use
  /// of the states.
  [[nodiscard]] uint32_t place() const { return valid_place_.load(std::memory_order_relaxed); }
  void change_place() { valid_place_.store(1 - place(), std::memory_order_relaxed); }

  [[nodiscard]] const plan::rank_plan& plan() const { return *plan_; }
  /// Returns the bytes that this rank has mapped, by owner, in the table that plans use for predictions.
  [[nodiscard]] plan::memory_table resident() const;

 private:
  std::shared_ptr<const plan::rank_plan> plan_;
  plan::pool_sizes sizes_;
  memory_place place_;
  states_elsewhere elsewhere_;
  [[nodiscard]] std::byte* state(const plan::owned_piece& piece, plan::state_part part, std::byte* window) const;
  void find_cached();

  [[nodiscard]] std::span<double> numbers_in(plan::pool which) const {
    return {reinterpret_cast<double*>(at(which)), pool(which).bytes() / sizeof(double)};
  }

  device::memory pools_[plan::num_owners];
  struct cached_set {
    std::vector<plan::shard_run> runs;
    uint64_t offset = 0;  // offset of the set in the parameters' pool, in elements
  };
  std::vector<cached_set> cached_;  // [gather set]: slices in memory that are in the swap file as well; empty if none
  std::vector<std::vector<uint32_t>> cached_in_;  // indices of the cached sets that contain a parameter, by parameter
  std::shared_ptr<storage::swap_file> swap_file_;
  std::atomic<uint32_t> valid_place_{0};
  std::atomic<uint32_t> writes_under_way_{0};
  std::optional<core::error> failed_write_;  // error of a failed write to the swap file; set before the write ends
};

}  // namespace troupe::actors
