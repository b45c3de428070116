#include "actors/initial_weights.hpp"

#include <algorithm>
#include <functional>

#include "kernels/cast.hpp"
#include "kernels/random.hpp"
#include "models/hugging_face.hpp"
#include "models/prepared_modules.hpp"

namespace troupe::actors {
namespace {

// Elements filled at a time: bounds the scratch memory whatever the parameter's size.
constexpr uint64_t window_elements = uint64_t{1} << 20;

using filler = std::function<core::result<void>(uint32_t parameter, uint64_t first, std::span<float> out)>;

filler drawn(const blueprint& b) {
  return [&b](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    const auto& p = b.table->parameters[q];
    switch (p.init) {
      case core::initial_value::zeros:
        std::fill(out.begin(), out.end(), 0.0F);
        break;
      case core::initial_value::ones:
        std::fill(out.begin(), out.end(), 1.0F);
        break;
      case core::initial_value::normal:
        kernels::fill_normal(out, b.config->seed, q, first, 0.0F, p.init_std);
        break;
    }
    return {};
  };
}

core::result<void> fill_range(const filler& fill, uint32_t q, uint64_t first, uint64_t count, std::byte* to,
                              core::dtype type, std::vector<float>& scratch) {
  for (uint64_t done = 0; done < count; done += window_elements) {
    const uint64_t n = std::min(window_elements, count - done);
    scratch.resize(n);
    if (auto ok = fill(q, first + done, scratch); !ok) return ok;
    kernels::cast(reinterpret_cast<const std::byte*>(scratch.data()), core::dtype::f32, to + done * core::size_of(type),
                  type, n);
  }
  return {};
}

}  // namespace

core::result<void> fill_initial_weights(const blueprint& b, rank_memory& memory, const models::prepared_modules* own) {
  const auto& p = memory.plan();
  std::unique_ptr<models::weights_source> file;
  filler fill = drawn(b);
  if (own != nullptr) {
    fill = [own](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
      own->read(q, first, out);
      return {};
    };
  } else if (!b.config->model.path.empty() && models::has_weights(b.config->model.path)) {
    auto opened = models::weights_source::open(b.config->model.path, b.spec, *b.table);
    if (!opened) return core::fail(opened.error());
    file = std::move(*opened);
    fill = [&](uint32_t q, uint64_t first, std::span<float> out) { return file->read(q, first, out); };
  }
  std::vector<float> scratch;
  for (uint32_t q = 0; q < b.table->parameters.size(); ++q) {
    const auto& own = p.partition.of(q, p.rank);
    const plan::slice held = p.options.stage == 3 ? own : plan::slice{0, b.table->parameters[q].numel()};
    if (auto ok =
            fill_range(fill, q, held.first, held.count, memory.parameter(q, held.first), p.options.parameter, scratch);
        !ok)
      return ok;
  }
  if (p.options.master_is_parameter()) return {};
  for (const auto& group : p.sub_groups)
    for (const auto& piece : group.pieces)
      if (auto ok = fill_range(fill, piece.parameter, piece.range.first, piece.range.count, memory.master(piece),
                               p.options.master(), scratch);
          !ok)
        return ok;
  return {};
}

void fill_initial_moments(const optimizer_groups& groups, rank_memory& memory) {
  const auto& o = memory.plan().options;
  for (const auto& group : memory.plan().sub_groups)
    for (const auto& piece : group.pieces) {
      const double value = groups.groups[groups.group_of[piece.parameter]].first_moment;
      for (uint32_t k = 0; k < o.update_of(piece.parameter).moments && value != 0; ++k) {
        std::byte* to = memory.moment(piece, k);
        if (o.master() == core::dtype::f64)
          std::fill_n(reinterpret_cast<double*>(to), piece.range.count, value);
        else
          std::fill_n(reinterpret_cast<float*>(to), piece.range.count, static_cast<float>(value));
      }
    }
}

}  // namespace troupe::actors
