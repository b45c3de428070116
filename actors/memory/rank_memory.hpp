// The memory of one rank: one pool for each owner (use of memory, such as parameters or moments), in the size that the
// plan requires. The pools exist as long as any lane or rank may access them. Owns addresses; the plan decides which
// bytes are used when.
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

/// The device of a rank, and the kind of its windows, the memory through which data move from and to swap files: huge
/// pages, or pinned as far as the system permits.
struct memory_place {
  device::device_id device{};
  device::tier windows = device::tier::huge;
  /// Shared memory for the pools that ranks of other processes access; empty: all pools belong to this process alone.
  shared_segment shared{};
  /// False: the rank is in another process, and only its shared pools are mapped here.
  bool is_here = true;
};

/// Functions that read and write states of a rank whose memory is in another process, converted from or to the given
/// type.
struct states_elsewhere {
  std::function<core::result<void>(uint32_t parameter, plan::state_part, plan::slice, core::dtype, std::byte*)> read;
  std::function<core::result<void>(uint32_t parameter, plan::state_part, plan::slice, core::dtype, const std::byte*)>
      write;
};

class rank_memory {
 public:
  /// Allocates the memory of a rank that trains by the plan `trains`, and that may run any other plan of the rank whose
  /// pools are no larger than `sizes`.
  static core::result<std::shared_ptr<rank_memory>> allocate(std::shared_ptr<const plan::rank_plan> trains,
                                                             const plan::pool_sizes& sizes,
                                                             const memory_place& place = {});

  /// Switches training to `trains`, a plan that stores states at the same places. Call between steps only: pools for
  /// data within a step are replaced if they have to grow, and lose their contents. Errors: no memory; a pool that
  /// holds states, that other processes share or through which files are read would have to grow. After an error
  /// nothing has changed.
  core::result<void> train_by(std::shared_ptr<const plan::rank_plan> trains, const plan::pool_sizes& sizes);

  [[nodiscard]] device::device_id device() const { return place_.device; }
  /// True if this process has all of the rank's memory.
  [[nodiscard]] bool is_here() const { return place_.is_here; }
  /// Returns the functions that access the rank's states if its memory is in another process.
  [[nodiscard]] const states_elsewhere& elsewhere() const { return elsewhere_; }
  void use_elsewhere(states_elsewhere x) { elsewhere_ = std::move(x); }
  /// Returns the first byte of a pool; null if the pool has no memory, such as the staging pool before take_staging().
  /// The parameter pool holds whole parameters at ZeRO stages 0 to 2, and this rank's slices at stage 3. In pools of
  /// slots and undo copies, the plan decides the offsets.
  [[nodiscard]] std::byte* at(plan::pool which) const { return pool(which).data(); }
  /// Returns the memory of a pool, so that a caller can move the pool's contents while nothing runs.
  [[nodiscard]] const device::memory& pool(plan::pool which) const { return pools_[static_cast<size_t>(which)]; }
  /// Returns the owner of the pool that contains the byte at `at`, which keeps the pool's bytes alive after this object
  /// has ended; null if no pool contains it.
  [[nodiscard]] std::shared_ptr<const void> owner_of(const std::byte* at) const;
  /// Returns the reason why windows onto files are not pinned although they should be; nullopt if they are pinned, or
  /// need not be.
  [[nodiscard]] std::optional<std::string> unpinned() const;

  /// Returns the address of element `first` of `parameter`, which this rank must hold.
  [[nodiscard]] std::byte* parameter(uint32_t parameter, uint64_t first) const;
  /// votes() and norms() return the memory for the numbers that ranks exchange in the vote (square sums, losses), and
  /// for LAMB's norms; both are large enough for any plan of the rank.
  [[nodiscard]] std::span<double> votes() const { return numbers_in(plan::pool::votes); }
  [[nodiscard]] std::span<double> norms() const { return numbers_in(plan::pool::norms); }
  /// Allocates the staging pool, the memory that saves copy states to; call before the first run that saves. Later
  /// calls do nothing.
  core::result<void> take_staging();
  /// Returns the address of the master weight of the piece's first element, in fp32 (fp64 in reference mode). If master
  /// weights are swapped, the address is in `window`, which must hold the states of the piece's sub-group; null without
  /// `window`.
  [[nodiscard]] std::byte* master(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// Returns the address of the piece's first (`which` 0), second (1) or third (2) moment; if moments are swapped, in
  /// `window`, which holds the states of its sub-group. Null if the parameter has no such moment.
  [[nodiscard]] std::byte* moment(const plan::owned_piece& piece, uint32_t which, std::byte* window = nullptr) const;
  /// Returns the address of the piece's weights in the 16-bit parameter type; if they are swapped, in `window`. Null if
  /// the parameters are their own master weights.
  [[nodiscard]] std::byte* copy(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// Returns the address of the piece's reduced gradient after the step's last reduction; if gradients are swapped, in
  /// `window`, which holds the states of the piece's sub-group.
  [[nodiscard]] std::byte* gradient(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// Returns the address of the reduced gradient of element `first` of `parameter`; if reduced gradients are swapped,
  /// in `window`, which holds those of the parameter's bucket.
  [[nodiscard]] std::byte* reduced_gradient(uint32_t parameter, uint64_t first, std::byte* window = nullptr) const;
  /// Returns the address of the part that this rank owns of the reduced gradient of `parameter` after the last
  /// reduction of a step of `p`, a plan that this memory was allocated for.
  [[nodiscard]] std::byte* last_gradient(const plan::rank_plan& p, uint32_t parameter) const;

  /// Returns the address of buffer `buffer` of `p`, a plan that this memory was allocated for.
  [[nodiscard]] std::byte* window(const plan::rank_plan& p, uint32_t buffer) const;
  /// Returns the memory of all windows onto the swap file, so that the caller can register it with a queue of requests.
  [[nodiscard]] std::vector<std::span<std::byte>> windows() const;
  /// Returns the copy in memory of this rank's slices of gather set `set`, in the layout of plan::shard_runs; null if
  /// the slices are only in the swap file.
  [[nodiscard]] std::byte* cached(uint32_t set) const;
  /// Returns the address of the piece's weights in the first gather set that contains them and is cached in memory;
  /// null if there is none.
  [[nodiscard]] std::byte* cached_weights(const plan::owned_piece& piece) const;
  /// Copies the new weights of a piece into every cached gather set that contains them.
  void refresh_cached(const plan::owned_piece& piece, const std::byte* weights) const;

  /// Copies this rank's part of gather set `set`, whose whole parameters are at `gathered`, to the second copy of
  /// parameters (hpZ), which later gathers of the step read.
  void keep_near(const plan::rank_plan& p, uint32_t set, const std::byte* gathered) const;

  /// Returns the swap file; null if nothing is swapped.
  [[nodiscard]] const std::shared_ptr<storage::swap_file>& swap_file() const { return swap_file_; }
  void use_swap_file(std::shared_ptr<storage::swap_file> file) { swap_file_ = std::move(file); }
  /// write_begins and write_ends count the writes to the swap file that may still run when their step ends; the io lane
  /// calls them.
  void write_begins() { writes_under_way_.fetch_add(1, std::memory_order_relaxed); }
  void write_ends(const std::optional<core::error>& failure = {});
  /// Waits until no counted write to the swap file is running, so that everything that steps have written can be read.
  /// Callable on any thread but the io lane's. Once a write has failed, this and all later calls return the error of
  /// the first failed write.
  [[nodiscard]] core::result<void> settle_writes() const;

  /// Returns which of the two places (0 or 1) that states have in the swap file holds their valid values; 0 if states
  /// have one place. A step that updates states writes the new values to the other place; the rank calls change_place()
  /// at the end of that step, before any other use of the states.
  [[nodiscard]] uint32_t place() const { return valid_place_.load(std::memory_order_relaxed); }
  void change_place() { valid_place_.store(1 - place(), std::memory_order_relaxed); }

  [[nodiscard]] const plan::rank_plan& plan() const { return *plan_; }
  /// Returns the bytes of memory that this rank has allocated, by use, in the form in which plans predict them.
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
    uint64_t offset = 0;  // offset of the cached set in the parameter pool, in elements
  };
  std::vector<cached_set> cached_;                // [gather set]: slices cached in memory; empty if no set is cached
  std::vector<std::vector<uint32_t>> cached_in_;  // [parameter]: indices of the cached sets that contain it
  std::shared_ptr<storage::swap_file> swap_file_;
  std::atomic<uint32_t> valid_place_{0};
  std::atomic<uint32_t> writes_under_way_{0};
  std::optional<core::error> failed_write_;  // why a write to the swap file failed; set before writes_under_way_ falls
};

}  // namespace troupe::actors
