#include "actors/outputs.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe::actors {
namespace {

/// Whether each rank of a tensor group has columns of its own.
bool in_parts(const plan::job_layout& l) {
  const auto head = static_cast<uint32_t>(l.table->units.size()) - 1;
  return l.tensor_ranks() > 1 && l.exchange_of(head, 0, plan::use::forward).op == core::exchange_op::gather;
}

/// The parts side by side along the last dimension.
model_output joined(const std::vector<model_output>& parts) {
  model_output out{parts.front().shape, {}};
  out.shape.back() = 0;
  for (const auto& part : parts) out.shape.back() += part.shape.back();
  size_t elements = 0;
  for (const auto& part : parts) elements += part.values.size();
  out.values.resize(elements);
  size_t column = 0;
  const auto width = static_cast<size_t>(out.shape.back());
  for (const auto& part : parts) {
    const auto own = static_cast<size_t>(part.shape.back());
    for (size_t row = 0; row * own < part.values.size(); ++row)
      std::copy_n(part.values.begin() + static_cast<std::ptrdiff_t>(row * own), own,
                  out.values.begin() + static_cast<std::ptrdiff_t>(row * width + column));
    column += own;
  }
  return out;
}

}  // namespace

std::vector<data_outputs> take_outputs(const std::vector<std::shared_ptr<step_context>>& ranks) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<model_output>> found;  // [data position, tensor coordinate]
  for (const auto& c : ranks) {
    const plan::job_layout& l = *c->plan().layout;
    auto all = std::exchange(c->logits, {});
    const uint32_t tensor = l.tensor_at(c->plan().rank);
    if (!all.empty() && (tensor == 0 || in_parts(l))) found[{l.data_at(c->plan().rank), tensor}] = std::move(all);
  }
  std::vector<data_outputs> out;
  for (auto first = found.begin(); first != found.end();) {
    const uint32_t data = first->first.first;
    const auto last = std::find_if(first, found.end(), [&](const auto& x) { return x.first.first != data; });
    data_outputs& of = out.emplace_back(data_outputs{data, {}});
    for (size_t m = 0; m < first->second.size(); ++m) {
      std::vector<model_output> parts;
      for (auto x = first; x != last; ++x) parts.push_back(std::move(x->second[m]));
      of.micros.push_back(parts.size() == 1 ? std::move(parts.front()) : joined(parts));
    }
    first = last;
  }
  return out;
}

}  // namespace troupe::actors
