#include "plan/passes/activations.hpp"

#include <algorithm>
#include <deque>

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
      if (k == kind::release || bytes_[unit] == 0) continue;
      const bool first_segment = d_.at(x).segment == 0;
      if (k == kind::forward) {
        if (first_segment) after_forward(x);
        continue;
      }
      d_.at(x).staged = window_[unit];
      if (k == kind::recompute) d_.depend(x, read_[unit]);
      if (k == kind::backward && first_segment) after_backward(x);
    }
    return std::string(in_files_ ? "inputs of units that wait in their file until backward frees a window: "
                                 : "inputs of units that wait on the host: ") +
           std::to_string(units_.size());
  }

 private:
  // `first` is the forward of the unit's first segment, which puts its input into the window.
  void after_forward(handle first) {
    const uint32_t u = d_.at(first).subject;
    for (; !leaving_.empty() && leaving_.size() + held_ >= slots_; leaving_.pop_front())
      d_.buffer(leaving_.front()).free_from = first;
    window_[u] = d_.at(first).staged = d_.open(first, pool::activations, bytes_[u], u);
    written_[u] = read_[u] = none;
    if (stay_from_ < units_.size() && u >= units_[stay_from_]) {
      ++held_;
      next_ = stay_from_;
      return;
    }
    const handle out = d_.insert_after(first, kind::swap_out, u, d_.at(first).micro);
    d_.at(out).what = swapped::activations;
    d_.at(out).bytes = bytes_[u];
    d_.at(out).staged = window_[u];
    d_.depend(out, first);
    d_.buffer(window_[u]).last = written_[u] = out;
    leaving_.push_back(window_[u]);
  }

  // `last` is the unit's last backward of a micro-batch.
  void after_backward(handle last) {
    d_.close(window_[d_.at(last).subject], last);
    --held_;
    if (next_ == 0) return;
    const uint32_t u = units_[--next_];
    const handle in = d_.insert_after(last, kind::swap_in, u, d_.at(last).micro);
    d_.at(in).what = swapped::activations;
    d_.at(in).use = use::backward;
    d_.at(in).bytes = bytes_[u];
    d_.at(in).staged = window_[u] = d_.open(in, pool::activations, bytes_[u], u);
    d_.depend(in, written_[u]);
    read_[u] = in;
    ++held_;
  }

  draft& d_;
  bool in_files_;
  std::vector<uint64_t> bytes_;         // [unit]
  std::vector<uint32_t> units_;         // with windows, in order of forward
  size_t stay_from_ = 0, slots_ = 0;    // of units_; windows
  std::vector<uint32_t> window_;        // [unit]
  std::vector<handle> written_, read_;  // [unit]
  std::deque<uint32_t> leaving_;        // windows
  size_t held_ = 0, next_ = 0;          // windows that stay; of units_: reads still to be written
};

}  // namespace

std::string move_activations(draft& d, const rank_plan& p) {
  return p.options().mode == mode::train ? activation_swaps(d, p).run() : "";
}

}  // namespace troupe::plan
