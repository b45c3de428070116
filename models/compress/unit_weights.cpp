#include "models/compress/unit_weights.hpp"

#include <ATen/ops/empty.h>

#include "checkpoint/convert/weights_export.hpp"
#include "core/text.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/element_cast.hpp"

namespace troupe::models {

core::result<unit_weights> unit_weights::open(const core::model_table& table, const formats::tensor_source& source,
                                              parameter_binding& binding) {
  unit_weights out(table, source, binding);
  TROUPE_ASSIGN(const auto all, checkpoint::weights_of(source, {}));
  const formats::name_map names(source);
  for (const auto& p : table.parameters) {
    const auto name = names.find(p.name);
    const formats::tensor_entry* entry = nullptr;
    for (const auto& w : all)
      if (name && w.name == *name) entry = w.from;
    const auto refused = [&](const std::string& why) {
      return fail(error_kind::mismatch,
                  "'" + formats::shown_place(source) + "': " + why + " '" + core::shown(p.name) + "'");
    };
    if (entry == nullptr) return refused("it does not contain the parameter");
    if (entry->shape != p.shape) return refused("the shape is not that of the model for the parameter");
    if (!formats::is_floating(entry->type)) return refused("the type is not floating-point for the parameter");
    out.entries_.push_back(entry);
  }
  return out;
}

core::result<void> unit_weights::load(uint32_t unit) {
  for (const auto& [q, memory] : memory_) binding_.release(q);
  memory_.clear();
  unit_.reset();
  for (const uint32_t q : table_.units[unit].parameters) {
    const auto& p = table_.parameters[q];
    at::Tensor memory = at::empty(p.shape, at::kFloat);
    const std::span<float> to(memory.mutable_data_ptr<float>(), p.numel());
    TROUPE_TRY(reader_.read_as(core::dtype::f32, *entries_[q], 0, to.size(), std::as_writable_bytes(to)));
    binding_.bind(q, to.data());
    memory_.emplace(q, std::move(memory));
  }
  unit_ = unit;
  return {};
}

}  // namespace troupe::models
