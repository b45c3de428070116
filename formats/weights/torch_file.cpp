#include "formats/weights/torch_file.hpp"

#include <algorithm>

#include "core/tensor_view.hpp"

namespace troupe::formats {

using core::dtype;

torch_value torch_file::tensor(dtype type, std::vector<int64_t> shape, std::vector<stretch> stretches) {
  uint64_t numel = 0;
  for (const auto& s : stretches) numel += s.count;
  const auto number = static_cast<uint32_t>(storages_.size());
  const uint64_t element_bytes = core::size_of(type);
  storages_.push_back(
      {type,
       numel,
       {},
       [&reader = reader_, type, element_bytes, parts = std::move(stretches), part = size_t{0}, begin = uint64_t{0}](
           uint64_t offset, std::span<std::byte> out) mutable -> core::result<void> {
         uint64_t at = offset / element_bytes;  // no remainder: offsets are multiples of every element size
         while (!out.empty()) {
           while (at >= begin + parts[part].count) begin += parts[part++].count;
           const auto& s = parts[part];
           const uint64_t n = std::min<uint64_t>(out.size() / element_bytes, begin + s.count - at);
           const auto bytes = static_cast<size_t>(n * element_bytes);
           if (s.tensor == nullptr) {
             std::fill_n(out.begin(), bytes, std::byte{0});
           } else if (auto ok = reader.read_as(type, *s.tensor, s.first + (at - begin), n, out.first(bytes)); !ok) {
             return ok;
           }
           out = out.subspan(bytes);
           at += n;
         }
         return {};
       }});
  return torch_view{number, 0, std::move(shape)};
}

torch_value torch_file::whole(dtype type, const tensor_entry& t) {
  const uint64_t numel = core::numel_of(t.shape);
  if (numel > 0) return tensor(type, t.shape, {{&t, 0, numel}});
  storages_.push_back({type, 0, {}, {}});
  return torch_view{static_cast<uint32_t>(storages_.size() - 1), 0, t.shape};
}

torch_value torch_file::nothing(dtype type) {
  const auto found = nothing_.find(type);
  if (found != nothing_.end()) return found->second;
  storages_.push_back({type, 0, {}, {}});
  return nothing_.emplace(type, torch_view{static_cast<uint32_t>(storages_.size() - 1), 0, {0}}).first->second;
}

torch_value torch_file::scalar(float value) {
  storages_.push_back({dtype::f32, 1, {}, [value](uint64_t, std::span<std::byte> out) -> core::result<void> {
                         std::ranges::copy(std::as_bytes(std::span(&value, 1)), out.begin());
                         return {};
                       }});
  return torch_view{static_cast<uint32_t>(storages_.size() - 1), 0, {}};
}

uint64_t torch_file::bytes() const {
  uint64_t out = 0;
  for (const auto& s : storages_) out += s.numel * core::size_of(s.type);
  return out;
}

}  // namespace troupe::formats
