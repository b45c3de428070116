#include "formats/source/state_dict.hpp"

#include <fmt/format.h>

#include "core/allocation.hpp"
#include "core/tensor_view.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/scatter_read.hpp"

namespace troupe::formats {

core::result<std::map<std::string, fp32_tensor>> load_state_dict(const tensor_source& from,
                                                                 bool exclude_frozen_parameters, uint64_t max_bytes) {
  // A master weight takes precedence over a weight of the same name.
  std::map<std::string, const tensor_entry*> chosen;
  for (const auto& t : from.tensors) {
    if (t.kind == tensor_kind::moment || !is_floating(t.type)) continue;
    if (t.kind == tensor_kind::frozen && exclude_frozen_parameters) continue;
    const auto [at, fresh] = chosen.try_emplace(t.name, &t);
    if (!fresh && t.kind == tensor_kind::master) at->second = &t;
  }
  uint64_t bytes = 0;
  for (const auto& [name, t] : chosen) bytes += core::numel_of(t->shape) * sizeof(float);
  if (bytes > max_bytes)
    return core::fail(core::error_kind::limit, fmt::format("'{}': its weights take {} bytes as fp32, at most {} are "
                                                           "allowed",
                                                           shown_place(from), bytes, max_bytes));
  const auto where = fmt::format("'{}': {} bytes of weights as fp32", shown_place(from), bytes);
  return core::with_memory(where, [&]() -> core::result<std::map<std::string, fp32_tensor>> {
    std::map<std::string, fp32_tensor> out;
    std::vector<scattered_tensor> wanted;
    for (const auto& [name, t] : chosen) {
      auto values = std::make_shared<std::vector<float>>(core::numel_of(t->shape));
      wanted.push_back({t, {{0, values->size(), core::dtype::f32, reinterpret_cast<std::byte*>(values->data())}}});
      out[name] = {t->shape, std::move(values)};
    }
    TROUPE_TRY(read_scattered(storage::real_files(), from, wanted));
    for (const auto& t : from.tied)
      if (const auto at = out.find(t.of); at != out.end()) out.emplace(t.name, at->second);
    return out;
  });
}

}  // namespace troupe::formats
