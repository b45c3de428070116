// Owns the windows of sub-groups whose states are in memory only around their updates, and otherwise in the swap file,
// and how far ahead the reads run.
#include "plan/passes/passes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/math.hpp"

namespace troupe::plan {
namespace {

class state_swaps {
 public:
  state_swaps(draft& d, const rank_plan& p)
      : d_(d),
        p_(p),
        slot_(p.sub_groups.size(), none),
        read_(p.sub_groups.size(), none),
        gradients_(p.layout->buckets.size(), none),
        written_(p.sub_groups.size(), none),
        last_backward_(find_last_backward()) {
    for (uint32_t g = 0; g < slot_.size(); ++g)
      if (is_swapped(g)) groups_.push_back(g);
    // If parameters are in files, the order of updates is reversed: the next step begins with the slices of the first
    // units, which are last in the layout and are then written first. Not reversed are updates before the vote, which
    // follow the order of backward, and the first windows if they are read ahead and wait for gradients in files.
    const bool ahead = !groups_.empty() && p.speculates(groups_.front());
    if (p.options().tiers.parameters != tier::nvme || ahead) return;
    const size_t first = p.layout->swaps_gradients() && reads_ahead() ? std::min<size_t>(windows(), groups_.size()) : 0;
    std::reverse(groups_.begin() + static_cast<std::ptrdiff_t>(first), groups_.end());
  }

  std::string run() {
    reorder();
    uint32_t computing = 0;  // number of uses that have begun to compute
    for (handle x = d_.begin; x != none; x = d_.next(x)) {
      if (computing < d_.marks.size() && x == d_.marks[computing].computes) begin(computing++, x);
      if (d_.is_mark(x)) continue;
      if (d_.at(x).kind == kind::swap_out && d_.at(x).what == swapped::gradients &&
          d_.at(x).micro == p_.layout->last_micro(d_.at(x).subject))
        gradients_[d_.at(x).subject] = x;
      if (x == d_.vote && p_.layout->swaps_gradients()) fill_windows(x);
      if (d_.at(x).kind == kind::update && is_swapped(d_.at(x).subject)) update(x);
    }
    do_again();
    return fmt::format("sub-groups that come from their file and go back, in the order of their windows: {} of {}",
                       groups_.size(), slot_.size());
  }

 private:
  [[nodiscard]] bool is_swapped(uint32_t group) const { return p_.blocks[group].swapped != 0; }
  [[nodiscard]] bool reads_ahead() const { return p_.options().tiers.read_ahead; }
  [[nodiscard]] uint32_t windows() const { return reads_ahead() ? std::max(1U, p_.options().tiers.state_slots) : 1; }

  void reorder() {
    std::vector<handle> update(slot_.size(), none);  // [sub-group]: update of the sub-group, if it follows the vote
    handle at = none;
    for (handle x = d_.vote; x != none; x = d_.next(x)) {
      if (d_.is_mark(x) || d_.at(x).kind != kind::update) continue;
      update[d_.at(x).subject] = x;
      if (at == none) at = d_.before(x);
    }
    const auto put = [&](uint32_t g) {
      if (update[g] == none) return;
      if (d_.next(at) != update[g]) d_.move_after(update[g], at);
      at = update[g];
    };
    for (uint32_t g = 0; g < update.size(); ++g)
      if (!is_swapped(g)) put(g);
    for (const uint32_t g : groups_) put(g);
  }

  // Fills windows as use `use` begins. Windows onto states are free until the first update: parts that need no gradient
  // of this step are read before the last backward. The reads are spread evenly if slices of parameters are read from
  // the same disk.
  void begin(uint32_t use, handle computes) {
    if (p_.layout->swaps_gradients())
      fill_windows(computes);
    else if (p_.options().tiers.parameters != tier::nvme)
      read_until(1, 1, computes);
    else if (use <= last_backward_)
      read_until(use + 1, last_backward_ + 1, computes);
  }
  // Returns the index of the first use of backward in the micro-batch that is the last to write its unit's gradients.
  [[nodiscard]] uint32_t find_last_backward() const {
    std::vector<uint32_t> last(p_.table().units.size(), none);  // [unit]: last micro-batch to write its gradients
    for (const unit_use& u : d_.uses)
      if (writes_gradients(u.kind)) last[u.unit] = u.micro;
    const auto begins = [&](const unit_use& u) { return u.kind != use::forward && u.micro == last[u.unit]; };
    return static_cast<uint32_t>(std::ranges::find_if(d_.uses, begins) - d_.uses.begin());
  }
  // Reads each sub-group whose gradients are in the file, as long as windows are free. Gradients are read together with
  // the states.
  void fill_windows(handle where) {
    for (; next_ < groups_.size() && next_ - updated_ < windows() && is_readable(groups_[next_]); ++next_)
      read(groups_[next_], none, where);
  }
  [[nodiscard]] bool is_readable(uint32_t g) const {
    const swap_block& b = p_.blocks[g];
    return !b.holds(state_part::gradient) || gradients_[p_.layout->bucket_of[b.pieces.front().parameter]] != none;
  }
  // Reads sub-groups until the share `done` / `all` of the windows is filled.
  void read_until(uint64_t done, uint64_t all, handle where) {
    const auto until = std::min<size_t>(core::div_up(windows() * done, all), groups_.size());
    for (; next_ < until; ++next_) read(groups_[next_], none, where);
  }
  void read(uint32_t g, handle vote, handle where) {
    const swap_block& b = p_.blocks[g];
    const uint64_t bytes = states_read(*p_.layout, b).bytes + part_offset(*p_.layout, b, state_part::master);
    if (bytes == 0) return;  // nothing is read: the update opens the window
    const handle x = read_[g] = d_.insert_before(where, kind::swap_in, g, p_.options().accumulation - 1);
    d_.at(x).what = swapped::states;
    d_.at(x).moved_bytes = bytes;
    if (vote != none) d_.at(x).guard = guard::not_skipped;
    d_.depend(x, vote);
    if (!reads_ahead()) d_.depend(x, last_update_);
    if (b.holds(state_part::gradient)) d_.depend(x, gradients_[p_.layout->bucket_of[b.pieces.front().parameter]]);
    d_.at(x).slots.window = slot_[g] = d_.open(x, pool::states, extent_bytes(*p_.layout, b), g);
  }

  void update(handle x) {
    const uint32_t g = d_.at(x).subject;
    const handle vote = d_.at(x).guard == guard::not_skipped ? d_.vote : none;
    if (next_ < groups_.size() && groups_[next_] == g) {
      ++next_;
      read(g, vote, x);
    }
    if (slot_[g] == none) slot_[g] = d_.open(x, pool::states, extent_bytes(*p_.layout, p_.blocks[g]), g);
    d_.at(x).slots.window = slot_[g];
    d_.depend(x, read_[g]);
    if (!p_.options().tiers.write_behind) d_.depend(x, last_write_);
    last_update_ = x;
    const handle last = write(x, vote);
    d_.close(slot_[g], last);
    ++updated_;
    if (reads_ahead() && next_ < groups_.size() && is_readable(groups_[next_]))
      read(groups_[next_++], vote, d_.next(last));
  }
  // Adds the write of an update, and returns the last user of the window: the write, or the update if nothing is
  // written.
  handle write(handle update, handle vote) {
    const uint32_t g = d_.at(update).subject;
    const uint64_t bytes = states_written(*p_.layout, p_.blocks[g]).bytes;
    if (bytes == 0) return update;
    const handle x = last_write_ = d_.insert_after(update, kind::swap_out, g, p_.options().accumulation - 1);
    d_.at(x).what = swapped::states;
    d_.at(x).guard = vote == none ? guard::always : guard::not_skipped;
    d_.at(x).moved_bytes = bytes;
    d_.at(x).slots.window = slot_[g];
    d_.depend(x, update);
    written_[g] = x;
    return x;
  }

  // Adds the swaps of a clipped step: the states of an early update are read again from their valid place in the swap
  // file, which the first update has left unchanged; the redo updates them, and its result is written over the result
  // of the first update, in the other place.
  void do_again() {
    std::vector<handle> all;
    for (handle x = d_.vote; x != none; x = d_.next(x))
      if (!d_.is_mark(x) && d_.at(x).kind == kind::redo && is_swapped(d_.at(x).subject)) all.push_back(x);
    last_update_ = last_write_ = none;
    size_t read = 0;
    for (; read < std::min<size_t>(all.size(), windows()); ++read) read_again(all[read], all.front());
    for (size_t k = 0; k < all.size(); ++k) {
      if (read == k) read_again(all[read++], all[k]);
      if (!p_.options().tiers.write_behind) d_.depend(all[k], last_write_);
      last_update_ = all[k];
      const handle last = write_again(all[k]);
      d_.close(d_.at(all[k]).slots.window, last);
      if (reads_ahead() && read < all.size()) read_again(all[read++], d_.next(last));
    }
  }
  void read_again(handle redo, handle where) {
    const uint32_t g = d_.at(redo).subject;
    const swap_block& b = p_.blocks[g];
    const uint64_t bytes = states_read(*p_.layout, b).bytes + part_offset(*p_.layout, b, state_part::master);
    if (bytes == 0) {  // the update itself opens the window
      d_.at(redo).slots.window = d_.open(redo, pool::states, extent_bytes(*p_.layout, b), g);
      return;
    }
    const handle x = for_redo(d_.insert_before(where, kind::swap_in, g, p_.options().accumulation - 1));
    d_.at(x).moved_bytes = bytes;
    if (!reads_ahead()) d_.depend(x, last_update_);
    if (b.holds(state_part::gradient)) d_.depend(x, gradients_[p_.layout->bucket_of[b.pieces.front().parameter]]);
    const uint32_t window = d_.open(x, pool::states, extent_bytes(*p_.layout, b), g);
    d_.at(x).slots.window = d_.at(redo).slots.window = window;
    d_.depend(redo, x);
  }
  // Adds the swap that writes a redo's states, and returns the last user of the window.
  handle write_again(handle redo) {
    const uint32_t g = d_.at(redo).subject;
    const uint64_t bytes = states_written(*p_.layout, p_.blocks[g]).bytes;
    if (bytes == 0) return redo;
    const handle x = last_write_ = for_redo(d_.insert_after(redo, kind::swap_out, g, p_.options().accumulation - 1));
    d_.at(x).moved_bytes = bytes;
    d_.at(x).slots.window = d_.at(redo).slots.window;
    d_.depend(x, redo);
    d_.depend(x, written_[g]);
    return x;
  }
  handle for_redo(handle x) {
    d_.at(x).what = swapped::states;
    d_.at(x).repeats = repetition::redo;
    d_.at(x).guard = guard::clipped;
    d_.depend(x, d_.vote);
    return x;
  }

  draft& d_;
  const rank_plan& p_;
  std::vector<uint32_t> groups_;   // sub-groups whose states need a window, in order
  std::vector<uint32_t> slot_;     // [sub-group]: window of the sub-group's states
  std::vector<handle> read_;       // [sub-group]: the read of its states before the update
  std::vector<handle> gradients_;  // [bucket]: the write of the bucket's gradients into the file
  std::vector<handle> written_;    // [sub-group]: the write of its states after the update
  uint32_t last_backward_ = 0;     // index of the use with the last backward
  size_t next_ = 0, updated_ = 0;  // number of sub-groups in groups_ that were read, and that were updated
  handle last_update_ = none, last_write_ = none;
};

}  // namespace

std::string swap_states(draft& d, const rank_plan& p) {
  return p.options().mode == mode::train && !p.blocks.empty() ? state_swaps(d, p).run() : "";
}

}  // namespace troupe::plan
