// Owns the windows, in a pool of host memory, for the inputs of recomputed units that leave device memory between
// forward and backward, and how far ahead these inputs are read. Leaves extents to layout/activation_extents.hpp, and
// copying to the compute lane.
#include "plan/passes/passes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <span>
#include <vector>

#include "plan/kinds.hpp"
#include "plan/layout/activation_extents.hpp"

namespace troupe::plan {
namespace {

class activation_swaps {
 public:
  activation_swaps(draft& d, const rank_plan& p) : d_(d), in_files_(p.options().tiers.activations == tier::nvme) {
    const auto units = static_cast<uint32_t>(p.table().units.size());
    for (uint32_t u = 0; u < units; ++u) {
      bytes_.push_back(activation_window_bytes(*p.layout, u));
      if (bytes_[u] > 0) units_.push_back(u);
    }
    window_.assign(units, none);
    written_ = read_ = window_;
    slots_ = in_files_ ? std::max(1U, p.options().tiers.activation_slots) : units_.size();
    stay_from_ = units_.size() - std::min(slots_, units_.size());
  }

  std::string run() {
    if (units_.empty()) return {};
    for (handle x = d_.begin; x != none; x = d_.next(x)) {
      if (d_.is_mark(x) || lane_of(d_.at(x).kind) != lane::compute) continue;
      const kind k = d_.at(x).kind;
      const uint32_t unit = d_.at(x).subject;
      // A `multiply` does not read the window, because the forward before it copies the input out of the window.
      if (!touches_activations(k) || bytes_[unit] == 0) continue;
      const bool first_segment = d_.at(x).segment == 0;
      if (k == kind::forward) {
        if (first_segment) after_forward(x);
        continue;
      }
      d_.at(x).slots.window = window_[unit];
      if (k == kind::recompute) d_.depend(x, read_[unit]);
      if (k == kind::backward && first_segment) after_backward(x);
    }
    return fmt::format("{}{}",
                       in_files_ ? "inputs of units that wait in their file until backward frees a window: "
                                 : "inputs of units that wait on the host: ",
                       units_.size());
  }

 private:
  // Opens a window for the unit's input. `first` is the forward of the unit's first segment, which writes its input to
  // the window.
  void after_forward(handle first) {
    const uint32_t u = d_.at(first).subject;
    for (; !leaving_.empty() && leaving_.size() + held_ >= slots_; leaving_.pop_front())
      d_.buffer(leaving_.front()).free_from = first;
    window_[u] = d_.at(first).slots.window = d_.open(first, pool::activations, bytes_[u], u);
    written_[u] = read_[u] = none;
    if (stay_from_ < units_.size() && u >= units_[stay_from_]) {
      ++held_;
      next_ = stay_from_;
      return;
    }
    const handle out = d_.insert_after(first, kind::swap_out, u, d_.at(first).micro);
    d_.at(out).what = swapped::activations;
    d_.at(out).moved_bytes = bytes_[u];
    d_.at(out).slots.window = window_[u];
    d_.depend(out, first);
    d_.buffer(window_[u]).last = written_[u] = out;
    leaving_.push_back(window_[u]);
  }

  // Frees the window after `last`, the unit's last backward of a micro-batch, and reads the next input.
  void after_backward(handle last) {
    d_.close(window_[d_.at(last).subject], last);
    --held_;
    if (next_ == 0) return;
    const uint32_t u = units_[--next_];
    const handle in = d_.insert_after(last, kind::swap_in, u, d_.at(last).micro);
    d_.at(in).what = swapped::activations;
    d_.at(in).use = use::backward;
    d_.at(in).moved_bytes = bytes_[u];
    d_.at(in).slots.window = window_[u] = d_.open(in, pool::activations, bytes_[u], u);
    d_.depend(in, written_[u]);
    read_[u] = in;
    ++held_;
  }

  draft& d_;
  bool in_files_;
  std::vector<uint64_t> bytes_;  // [unit]: bytes of the window for the unit's input
  std::vector<uint32_t> units_;  // units whose inputs have windows, in order of forward
  // `stay_from_`: index in units_ of the first unit whose input remains in its window until backward, instead of being
  // written to the file. `slots_`: number of windows.
  size_t stay_from_ = 0, slots_ = 0;
  std::vector<uint32_t> window_;        // [unit]: window of the unit's input
  std::vector<handle> written_, read_;  // [unit]: the write and the read of the unit's input
  std::deque<uint32_t> leaving_;        // windows that are being written to the file, in order of their writes
  // `held_`: number of windows with an input that backward has yet to read. `next_`: number of units_ whose reads are
  // still to be added.
  size_t held_ = 0, next_ = 0;
};

// Adds the swaps of units' inputs for a pipeline, in which several micro-batches are between their forward and their
// backward at a time. The inputs that backward reads soonest after their forward remain in their windows; the other
// inputs are written to the file, and read again in the order in which backward needs them.
class pipelined_swaps {
 public:
  pipelined_swaps(draft& d, const rank_plan& p)
      : d_(d),
        l_(*p.layout),
        in_files_(l_.options.tiers.activations == tier::nvme),
        slots_(std::max(2U, l_.options.tiers.activation_slots)),
        wait_of_(l_.table->units.size() * l_.options.accumulation, none) {}

  std::string run() {
    for (handle x = d_.begin; x != none; x = d_.next(x))
      if (concerns(x)) note(x);
    if (waits_.empty()) return {};
    choose();
    for (handle x = d_.begin; x != none; x = d_.next(x))
      if (concerns(x)) visit(x);
    return fmt::format("{}{}",
                       in_files_ ? "inputs of micro-batches in flight that wait in their file: "
                                 : "inputs of micro-batches in flight that wait on the host: ",
                       in_files_ ? reads_.size() : waits_.size());
  }

 private:
  // The time from the forward that stores a unit's input to the backward that uses it last.
  struct wait {
    uint64_t put = 0, taken = 0;  // begin and end of the wait, on a clock that advances at each store and at each last
                                  // use of an input on this rank
    uint32_t window = none;
    handle written = none, read = none;
    bool stays = true;
  };

  [[nodiscard]] bool concerns(handle x) const {
    if (d_.is_mark(x)) return false;
    const auto& o = d_.at(x);
    return touches_activations(o.kind) && activation_window_bytes(l_, o.subject) > 0;
  }
  [[nodiscard]] uint32_t& wait_at(handle x) {
    return wait_of_[d_.at(x).subject * l_.options.accumulation + d_.at(x).micro];
  }
  [[nodiscard]] bool puts(handle x) const { return d_.at(x).kind == kind::forward && d_.at(x).segment == 0; }
  [[nodiscard]] bool takes(handle x) const { return d_.at(x).kind == kind::backward && d_.at(x).segment == 0; }

  void note(handle x) {
    if (puts(x)) {
      wait_at(x) = static_cast<uint32_t>(waits_.size());
      waits_.push_back({.put = now_++});
    }
    if (takes(x)) waits_[wait_at(x)].taken = now_++;
  }

  // Chooses the inputs that remain in windows until backward. Two windows are left for the other inputs: one for an
  // input that is being written to the file, one for an input that is being read.
  void choose() {
    if (!in_files_) return;
    std::vector<uint32_t> shortest(waits_.size());
    std::iota(shortest.begin(), shortest.end(), 0U);
    std::ranges::stable_sort(shortest, {}, [&](uint32_t i) { return waits_[i].taken - waits_[i].put; });
    std::vector<uint32_t> staying(now_, 0);
    for (const uint32_t i : shortest) {
      wait& w = waits_[i];
      const std::span during(staying.begin() + static_cast<long>(w.put), staying.begin() + static_cast<long>(w.taken));
      w.stays = std::ranges::all_of(during, [&](uint32_t n) { return n + 2 < slots_; });
      for (uint32_t& n : during) n += w.stays ? 1 : 0;
      if (!w.stays) reads_.push_back(i);
    }
    std::ranges::sort(reads_, {}, [&](uint32_t i) { return waits_[i].taken; });
    now_ = 0;
  }

  void visit(handle x) {
    const uint32_t i = wait_at(x);
    if (puts(x)) return put(x, i);
    if (d_.at(x).kind == kind::forward) return;
    wait& w = waits_[i];
    if (d_.at(x).kind == kind::recompute) {
      if (!w.stays && w.read == none) read(d_.insert_before(x, kind::swap_in, d_.at(x).subject, d_.at(x).micro));
      d_.depend(x, w.read);
    }
    d_.at(x).slots.window = w.window;
    if (!takes(x)) return;
    d_.close(w.window, x);
    --held_;
    ++now_;
    read_ahead(x);
  }

  void put(handle x, uint32_t i) {
    wait& w = waits_[i];
    ++now_;
    const uint32_t unit = d_.at(x).subject;
    w.window = d_.at(x).slots.window = open(x, unit);
    if (w.stays) {
      ++held_;
      return;
    }
    const handle out = d_.insert_after(x, kind::swap_out, unit, d_.at(x).micro);
    describe(out, w.window);
    d_.depend(out, x);
    d_.buffer(w.window).last = w.written = out;
    leaving_.push_back(w.window);
    read_ahead(out);
  }

  // Adds the read of the input that backward needs next, as soon as there is a window for it in addition to one for an
  // input that is being written to the file.
  void read_ahead(handle behind) {
    if (next_ == reads_.size() || held_ + 2 > slots_) return;
    const wait& w = waits_[reads_[next_]];
    if (w.written == none) return;
    const handle out = d_.standing(w.written);
    read(d_.insert_after(behind, kind::swap_in, d_.at(out).subject, d_.at(out).micro));
  }
  void read(handle in) {
    wait& w = waits_[reads_[next_++]];
    w.window = open(in, d_.at(in).subject);
    describe(in, w.window);
    d_.at(in).use = use::backward;
    d_.depend(in, w.written);
    w.read = in;
    ++held_;
  }

  uint32_t open(handle x, uint32_t unit) {
    for (; in_files_ && !leaving_.empty() && leaving_.size() + held_ >= slots_; leaving_.pop_front())
      d_.buffer(leaving_.front()).free_from = x;
    return d_.open(x, pool::activations, activation_window_bytes(l_, unit), unit);
  }
  void describe(handle swap, uint32_t window) {
    auto& o = d_.at(swap);
    o.what = swapped::activations;
    o.moved_bytes = activation_window_bytes(l_, o.subject);
    o.slots.window = window;
  }

  draft& d_;
  const job_layout& l_;
  bool in_files_;
  size_t slots_;
  std::vector<uint32_t> wait_of_;  // [unit * micro-batches + micro]: index in waits_
  std::vector<wait> waits_;        // one entry for each unit's input of each micro-batch, in the order of the forwards
  // Indices in waits_ of the inputs that are written to the file and read again, in the order in which backward uses
  // them.
  std::vector<uint32_t> reads_;
  // `next_`: index in reads_ of the next read. `held_`: number of windows with an input that backward has yet to read.
  size_t next_ = 0, held_ = 0;
  uint64_t now_ = 0;
  std::deque<uint32_t> leaving_;  // windows that are being written to the file, in order of their writes
};

}  // namespace

std::string move_activations(draft& d, const rank_plan& p) {
  if (p.options().mode != mode::train) return "";
  return p.options().pipeline.first_unit.empty() ? activation_swaps(d, p).run() : pipelined_swaps(d, p).run();
}

}  // namespace troupe::plan
