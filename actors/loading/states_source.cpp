#include "actors/loading/states_source.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/math.hpp"

namespace troupe::actors {
namespace {

/// Where one tensor of the states would be in the file of a checkpoint.
struct stored_state {
  uint64_t offset = 0, elements = 0;
  uint32_t parameter = 0;
  plan::state_part part = plan::state_part::master;
  core::dtype type = core::dtype::f32;
  [[nodiscard]] uint64_t bytes() const { return elements * core::size_of(type); }
};

/// A virtual file whose bytes are states in memory, as a checkpoint would store them. Gaps between tensors are zeros.
class states_file final : public storage::input_file {
 public:
  states_file(const whole_states& states, const std::vector<stored_state>& list, std::mutex& one)
      : states_(states), list_(list), one_(one) {}

  [[nodiscard]] uint64_t bytes() const override {
    return list_.empty() ? 0 : list_.back().offset + list_.back().bytes();
  }

  [[nodiscard]] core::result<size_t> read_at(uint64_t offset, std::span<std::byte> out) const override {
    const uint64_t end = std::min(offset + out.size(), bytes());
    if (offset >= end) return size_t{0};
    std::ranges::fill(out, std::byte{0});
    auto at = std::ranges::upper_bound(list_, offset, {}, &stored_state::offset);
    if (at != list_.begin()) --at;
    const std::lock_guard lock(one_);  // states must be read by one thread at a time
    for (; at != list_.end() && at->offset < end; ++at) TROUPE_TRY(read(*at, offset, out.first(end - offset)));
    return end - offset;
  }

 private:
  /// Writes to `out` the bytes of tensor `x` that are in the range of the virtual file which begins at `offset` and has
  /// the size of `out`.
  core::result<void> read(const stored_state& x, uint64_t offset, std::span<std::byte> out) const {
    const uint64_t first = std::max(offset, x.offset), end = std::min(offset + out.size(), x.offset + x.bytes());
    if (first >= end) return {};
    const uint64_t size = core::size_of(x.type);
    const plan::slice range{(first - x.offset) / size, core::div_up(end - x.offset, size) - (first - x.offset) / size};
    // Reads the whole elements that contain the requested bytes.
    std::vector<std::byte> elements(range.count * size);
    TROUPE_TRY(states_.read(x.parameter, x.part, range, x.type, elements.data()));
    const uint64_t skipped = first - x.offset - range.first * size;
    std::copy_n(elements.begin() + static_cast<std::ptrdiff_t>(skipped), end - first,
                out.begin() + static_cast<std::ptrdiff_t>(first - offset));
    return {};
  }

  const whole_states& states_;
  const std::vector<stored_state>& list_;
  std::mutex& one_;
};

class states_view final : public formats::source_view {
 public:
  states_view(const whole_states& states, std::vector<stored_state> list) : states_(states), list_(std::move(list)) {}

  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(
      storage::file_system& /*files*/) const override {
    return std::make_unique<states_file>(states_, list_, one_);
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  whole_states states_;
  std::vector<stored_state> list_;  // ordered by offset
  mutable std::mutex one_;
};

}  // namespace

formats::tensor_source source_of_states(const whole_states& states, const core::model_table& table,
                                        const job::optimizer_groups& groups) {
  formats::tensor_source out;
  out.format = "this run's memory";
  out.folder = "the ranks' memory";
  std::vector<stored_state> list;
  uint64_t offset = 0;
  const state_store types(*states.ranks().front());
  const auto add = [&](uint32_t q, formats::tensor_kind kind, plan::state_part part, std::string_view moment) {
    const auto& p = table.parameters[q];
    const stored_state x{offset, p.numel(), q, part, types.type_of(part)};
    formats::piece whole;
    whole.count = x.elements;
    whole.offset_bytes = offset;
    out.tensors.push_back({.name = p.name,
                           .kind = kind,
                           .moment = std::string(moment),
                           .type = x.type,
                           .shape = p.shape,
                           .pieces = {whole}});
    offset = core::round_up(offset + x.bytes(), formats::piece_alignment_bytes);
    list.push_back(x);
  };
  for (uint32_t q = 0; q < table.parameters.size(); ++q) {
    const auto& p = table.parameters[q];
    if (p.is_copy() || p.of_teacher) continue;
    if (!p.trainable) {
      add(q, formats::tensor_kind::frozen, plan::state_part::copy, {});
      continue;
    }
    add(q, formats::tensor_kind::master, plan::state_part::master, {});
    const auto moments = job::moment_names(groups, q);
    for (uint32_t k = 0; k < moments.size(); ++k)
      add(q, formats::tensor_kind::moment, plan::moment_part(k), moments[k]);
  }
  put_in_order(out);
  const uint64_t bytes = list.empty() ? 0 : list.back().offset + list.back().bytes();
  auto view = std::make_shared<states_view>(states, std::move(list));
  out.files.push_back({.path = out.folder, .bytes = bytes, .view = std::move(view)});
  return out;
}

}  // namespace troupe::actors
