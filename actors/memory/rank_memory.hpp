// The bytes of one rank: one pool per owner, sized by the plan, alive as long as they may be read. Owns addresses; the
// plan decides which bytes are used when.
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
  shared_segment shared{};  ///< of a rank whose peers live in other processes too; empty: all pools are its own
  /// False: the rank lives in another process, of whose memory only the shared pools are seen here.
  bool is_here = true;
};

/// Reads or writes, as elements of a type, states of a rank of another process.
struct states_elsewhere {
  std::function<core::result<void>(uint32_t parameter, plan::state_part, plan::slice, core::dtype, std::byte*)> read;
  std::function<core::result<void>(uint32_t parameter, plan::state_part, plan::slice, core::dtype, const std::byte*)>
      write;
};

class rank_memory {
 public:
  /// Room for `trains`, and for every other plan of the same rank whose pools are no larger.
  static core::result<std::shared_ptr<rank_memory>> allocate(std::shared_ptr<const plan::rank_plan> trains,
                                                             const plan::pool_sizes& sizes,
                                                             const memory_place& place = {});

  /// From now on it trains by another plan with the same places of states. Between steps: what slots held is gone where
  /// they become more. Errors: no memory (then all is as before), or slots that files use would have to grow.
  core::result<void> train_by(std::shared_ptr<const plan::rank_plan> trains, const plan::pool_sizes& sizes);

  [[nodiscard]] device::device_id device() const { return place_.device; }
  /// Whether this process has all of the rank's memory.
  [[nodiscard]] bool is_here() const { return place_.is_here; }
  /// Who is asked for states where it is not.
  [[nodiscard]] const states_elsewhere& elsewhere() const { return elsewhere_; }
  void use_elsewhere(states_elsewhere x) { elsewhere_ = std::move(x); }
  /// The first byte of a pool; null where it is empty, as staging is before `take_staging`. Parameters lie there in
  /// their own layout: full at stages 0 to 2, this rank's slices at stage 3. Slots and undo copies lie where the plan
  /// places them.
  [[nodiscard]] std::byte* at(plan::pool which) const { return pool(which).data(); }
  /// The pool as a whole, to move it while nothing runs.
  [[nodiscard]] const device::memory& pool(plan::pool which) const { return pools_[static_cast<size_t>(which)]; }
  /// Why windows that should be pinned are not; nullopt if they are, or need not be.
  [[nodiscard]] std::optional<std::string> unpinned() const;

  /// Element `first` of `parameter`, which this rank must hold.
  [[nodiscard]] std::byte* parameter(uint32_t parameter, uint64_t first) const;
  /// Square sums and losses of all ranks, and LAMB's norms: room for any plan's.
  [[nodiscard]] std::span<double> votes() const { return numbers_in(plan::pool::votes); }
  [[nodiscard]] std::span<double> norms() const { return numbers_in(plan::pool::norms); }
  /// Before the first run that saves; later calls do nothing.
  core::result<void> take_staging();
  /// Master weight of a piece's first element; fp32, fp64 in reference mode. Where it is swapped: in `window`, which
  /// holds the piece's sub-group; null without.
  [[nodiscard]] std::byte* master(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// First (0) or second (1) moment, likewise; null where the optimizer of this parameter keeps none.
  [[nodiscard]] std::byte* moment(const plan::owned_piece& piece, uint32_t which, std::byte* window = nullptr) const;
  /// The 16-bit copy of a piece, likewise.
  [[nodiscard]] std::byte* copy(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// The reduced gradient of a piece, as it lies after the step's last reduction, likewise.
  [[nodiscard]] std::byte* gradient(const plan::owned_piece& piece, std::byte* window = nullptr) const;
  /// The same of element `first` of `parameter`, before its update; where it is swapped: in its bucket's `window`.
  [[nodiscard]] std::byte* reduced_gradient(uint32_t parameter, uint64_t first, std::byte* window = nullptr) const;
  /// The start of the reduced gradient that this rank keeps of `parameter`, after the last reduction of `p`, one of the
  /// plans that this memory was taken for.
  [[nodiscard]] std::byte* last_gradient(const plan::rank_plan& p, uint32_t parameter) const;

  /// Slot `buffer` of `p`, one of the plans that this memory was taken for.
  [[nodiscard]] std::byte* window(const plan::rank_plan& p, uint32_t buffer) const;
  /// All windows, for registering.
  [[nodiscard]] std::vector<std::span<std::byte>> windows() const;
  /// Own slices of gather set `set`, in the layout of plan::shard_runs; null where they are only in the file.
  [[nodiscard]] std::byte* cached(uint32_t set) const;
  /// The weights of a piece in the first cached set that holds them; null where none does.
  [[nodiscard]] std::byte* cached_weights(const plan::owned_piece& piece) const;
  /// Puts new weights of a piece into every cached set that holds them.
  void refresh_cached(const plan::owned_piece& piece, const std::byte* weights) const;

  /// Keeps this rank's part of gather set `set`, whole at `gathered`, in the second copy of parameters.
  void keep_near(const plan::rank_plan& p, uint32_t set, const std::byte* gathered) const;

  /// The swap file; null if nothing is swapped.
  [[nodiscard]] const std::shared_ptr<storage::swap_file>& swap_file() const { return swap_file_; }
  void use_swap_file(std::shared_ptr<storage::swap_file> file) { swap_file_ = std::move(file); }
  /// A write to the swap file that may outlive its step begins; called by the io lane, as is its end.
  void write_begins() { writes_under_way_.fetch_add(1, std::memory_order_relaxed); }
  void write_ends(const std::optional<core::error>& failure = {});
  /// Returns when no write is under way: everything that steps have written may be read. From any other thread. Errors:
  /// that of the first write that failed, from then on.
  [[nodiscard]] core::result<void> settle_writes() const;

  /// The place in the swap file, 0 or 1, of the states that are valid, where they have two. A step that has updated
  /// them leaves the valid ones in the other: then the rank says so, before anyone else uses them.
  [[nodiscard]] uint32_t place() const { return valid_place_.load(std::memory_order_relaxed); }
  void change_place() { valid_place_.store(1 - place(), std::memory_order_relaxed); }

  [[nodiscard]] const plan::rank_plan& plan() const { return *plan_; }
  /// Bytes that are really mapped, by owner, in the plan's terms.
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
    uint64_t offset = 0;  // elements
  };
  std::vector<cached_set> cached_;                // [gather set]
  std::vector<std::vector<uint32_t>> cached_in_;  // [parameter]: cached sets
  std::shared_ptr<storage::swap_file> swap_file_;
  std::atomic<uint32_t> valid_place_{0};
  std::atomic<uint32_t> writes_under_way_{0};
  std::optional<core::error> failed_write_;  // set before the write ends
};

}  // namespace troupe::actors
