#include "formats/deepspeed/averaged.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor_view.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/source_reader.hpp"

namespace troupe::formats {
namespace {

using bytes = std::vector<std::byte>;

core::result<std::vector<bytes>> values_of(source_reader& reader, const averaged_tensor& mean) {
  std::vector<bytes> out;
  for (const auto& t : mean.values) {
    const uint64_t elements = core::numel_of(t.shape);
    TROUPE_TRY(reader.read(t, 0, elements, out.emplace_back(elements * core::size_of(t.type))));
  }
  return out;
}

template <class T>
bytes mean_of(const std::vector<bytes>& values, core::dtype type, core::dtype computed) {
  const uint64_t elements = values.front().size() / core::size_of(type);
  std::vector<T> sum(elements), next(elements);
  for (size_t r = 0; r < values.size(); ++r) {
    cast_elements(type, values[r].data(), computed, reinterpret_cast<std::byte*>(next.data()), elements);
    for (uint64_t i = 0; i < elements; ++i) sum[i] = r == 0 ? next[i] : sum[i] + next[i];
  }
  for (T& x : sum) x /= static_cast<T>(values.size());
  bytes out(values.front().size());
  cast_elements(computed, reinterpret_cast<const std::byte*>(sum.data()), type, out.data(), elements);
  return out;
}

}  // namespace

core::result<void> take_means(merged_source& m) {
  auto& whole = m.whole;
  source_reader reader(whole);
  const auto number = static_cast<uint32_t>(whole.files.size());
  const auto content = std::make_shared<bytes>();
  // Pairs of a tensor's index and the piece of its mean; the tensors get these pieces after all means are computed.
  std::vector<std::pair<size_t, piece>> places;
  for (const auto& mean : m.averaged) {
    const auto& t = mean.values.front();
    const uint64_t elements = core::numel_of(t.shape), size = elements * core::size_of(t.type);
    if (content->size() + size * (mean.values.size() + 1) > max_averaged_bytes)
      return fail(error_kind::limit,
                  fmt::format("'{}': the means of the tensor-parallel ranks' values take more than {} bytes",
                              shown_place(whole), max_averaged_bytes));
    TROUPE_ASSIGN(const auto values, values_of(reader, mean));
    if (std::ranges::adjacent_find(values, std::not_equal_to()) == values.end()) continue;
    if (!is_floating(t.type))
      return fail(
          error_kind::bad_input,
          fmt::format("'{}': tensor {} is averaged over the tensor-parallel ranks, but their integer values differ",
                      shown_place(whole), shown(t)));
    places.emplace_back(mean.tensor, piece{number, 0, elements, content->size(), {}});
    const auto value = t.type == core::dtype::f64 ? mean_of<double>(values, t.type, core::dtype::f64)
                                                  : mean_of<float>(values, t.type, core::dtype::f32);
    content->insert(content->end(), value.begin(), value.end());
  }
  if (places.empty()) return {};
  whole.files.push_back({whole.folder / "mean of tensor-parallel ranks", content->size(), content});
  for (const auto& [tensor, at] : places) whole.tensors[tensor].pieces = {at};
  return {};
}

}  // namespace troupe::formats
