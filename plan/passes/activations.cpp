#include "plan/passes/activations.hpp"

namespace troupe::plan {

activation_swaps::activation_swaps(plan_writer& writer) : writer_(writer) {
  const auto& p = writer_.plan();
  if (p.options().mode != mode::train) return;
  const auto units = static_cast<uint32_t>(p.table().units.size());
  for (uint32_t u = 0; u < units; ++u) {
    bytes_.push_back(activation_window_bytes(*p.layout, u));
    if (bytes_[u] > 0) units_.push_back(u);
  }
  window_.assign(units, none);
  written_ = read_ = window_;
  const auto& t = p.options().tiers;
  slots_ = t.activations == tier::nvme ? std::max(1U, t.activation_slots) : units_.size();
  stay_from_ = units_.size() - std::min(slots_, units_.size());
}

void activation_swaps::after_forward(uint32_t first) {
  const uint32_t u = writer_.at(first).subject, micro = writer_.at(first).micro;
  if (!offloads(u)) return;
  for (; !leaving_.empty() && leaving_.size() + held_ >= slots_; leaving_.pop_front())
    writer_.close_buffer(leaving_.front().first, leaving_.front().second);
  auto& x = writer_.at(first);
  window_[u] = x.staged = writer_.open_buffer(x, pool::activations, bytes_[u], u);
  written_[u] = read_[u] = none;
  if (stay_from_ < units_.size() && u >= units_[stay_from_]) {
    ++held_;
    next_ = stay_from_;
    return;
  }
  auto& out = writer_.emit(kind::swap_out, u, micro);
  out.what = swapped::activations;
  out.bytes = bytes_[u];
  out.staged = window_[u];
  plan_writer::depend(out, first);
  written_[u] = out.id;
  leaving_.emplace_back(window_[u], out.id);
}

void activation_swaps::give_window(instruction& x) const {
  if (!offloads(x.subject)) return;
  x.staged = window_[x.subject];
  if (x.kind == kind::recompute) plan_writer::depend(x, read_[x.subject]);
}

void activation_swaps::after_backward(uint32_t last) {
  const uint32_t unit = writer_.at(last).subject, micro = writer_.at(last).micro;
  if (!offloads(unit)) return;
  writer_.close_buffer(window_[unit], last);
  --held_;
  if (next_ == 0) return;
  const uint32_t u = units_[--next_];
  auto& in = writer_.emit(kind::swap_in, u, micro);
  in.what = swapped::activations;
  in.use = use::backward;
  in.bytes = bytes_[u];
  window_[u] = in.staged = writer_.open_buffer(in, pool::activations, bytes_[u], u);
  plan_writer::depend(in, written_[u]);
  read_[u] = in.id;
  ++held_;
}

}  // namespace troupe::plan
