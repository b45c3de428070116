#include "hardware/price.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hardware/collective_cost.hpp"
#include "hardware/kernel_cost.hpp"
#include "hardware/memory_cost.hpp"
#include "hardware/step_cost.hpp"

namespace troupe::hardware {

core::result<void> needs_of(quantity q, const shape& of, const card& on, const constants& c) {
  if (q == quantity::step) return needs_of_step(std::get<workload>(of), on, c);
  if (q == quantity::memory) return needs_of_memory(std::get<workload>(of), c);
  return {};  // constants of kernels and of the ring are needed always, and were checked when the stack was read
}

double price_of(quantity q, const shape& of, const card& on, const constants& c) {
  switch (q) {
    case quantity::step:
      return cost_of_step(std::get<workload>(of), on, c).step_s;
    case quantity::memory:
      return cost_of_memory(std::get<workload>(of), c).peak_bytes;
    case quantity::product:
      return product_kernel_s(std::get<product_shape>(of), on, c);
    case quantity::attention:
      return attention_kernel_s(std::get<attention_shape>(of), on, c);
    case quantity::all_reduce:
      break;
  }
  const auto& a = std::get<all_reduce_shape>(of);
  return ring_all_reduce_s(a.bytes, a.ranks, c);
}

std::vector<price_part> parts_of(quantity q, const shape& of, const card& on, const constants& c) {
  switch (q) {
    case quantity::step: {
      const auto s = cost_of_step(std::get<workload>(of), on, c);
      return {{"compute_s", s.compute_s}, {"exposed_communication_s", s.exposed_communication_s},
              {"host_s", s.host_s},       {"bubble_s", s.bubble_s},
              {"update_s", s.update_s},   {"straggler_s", s.straggler_s}};
    }
    case quantity::memory: {
      const auto m = cost_of_memory(std::get<workload>(of), c);
      return {{"states_bytes", m.states_bytes},
              {"activations_bytes", m.activations_bytes},
              {"work_bytes", m.work_bytes},
              {"logits_bytes", m.logits_bytes},
              {"context_bytes", m.context_bytes}};
    }
    case quantity::product: {
      const double whole_s = price_of(q, of, on, c);
      return {{"kernel_s", whole_s - c.launch_s}, {"launch_s", c.launch_s}};
    }
    case quantity::attention:
      return {{"kernel_s", price_of(q, of, on, c)}};
    case quantity::all_reduce:
      break;
  }
  const auto& a = std::get<all_reduce_shape>(of);
  const double latency_s = c.ring_latency_s + c.ring_latency_per_rank_s * (a.ranks - 1);
  return {{"latency_s", latency_s}, {"transfer_s", price_of(q, of, on, c) - latency_s}};
}

std::vector<influence> influences_of(quantity q, const shape& of, const card& on, const constants& c, size_t most) {
  constexpr double more = 1.01;
  const double price = price_of(q, of, on, c);
  std::vector<influence> out;
  for (const auto& row : constant_rows()) {
    if (!row.is_for(q) || std::isnan(c.*row.field) || c.*row.field == 0) continue;
    constants changed = c;
    changed.*row.field *= more;
    const double percent = std::log(price_of(q, of, on, changed) / price) / std::log(more);
    if (percent != 0) out.push_back({row.name, percent});
  }
  std::ranges::stable_sort(out, std::greater(), [](const influence& i) { return std::abs(i.percent); });
  out.resize(std::min(out.size(), most));
  return out;
}

std::string group_of(const shape& s) {
  if (const auto* const w = std::get_if<workload>(&s)) return fmt::format("{:.0f}x{:.0f}", w->hidden, w->layers);
  if (const auto* const p = std::get_if<product_shape>(&s)) {
    std::array<double, 3> sizes{p->m, p->n, p->k};
    std::ranges::sort(sizes);
    return fmt::format("{:.0f}x{:.0f}x{:.0f}", sizes[0], sizes[1], sizes[2]);
  }
  if (const auto* const a = std::get_if<attention_shape>(&s)) return fmt::format("{:.0f}", a->heads);
  return fmt::format("{:.0f}", std::get<all_reduce_shape>(s).ranks);
}

}  // namespace troupe::hardware
