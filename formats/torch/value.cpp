#include "formats/torch/value.hpp"

#include <type_traits>

namespace troupe::formats {

torch_value torch_value::list(std::vector<torch_value> items) { return {kind::list, std::move(items)}; }
torch_value torch_value::tuple(std::vector<torch_value> items) { return {kind::tuple, std::move(items)}; }

torch_value torch_value::size(const std::vector<int64_t>& shape) {
  return call("torch", "Size", {tuple({shape.begin(), shape.end()})});
}

torch_value torch_value::call(std::string module, std::string name, std::vector<torch_value> arguments) {
  torch_value out(kind::call, std::move(arguments));
  out.module_ = std::move(module);
  out.name_ = std::move(name);
  return out;
}

torch_value torch_value::global(std::string module, std::string name) {
  auto out = call(std::move(module), std::move(name), {});
  out.kind_ = kind::global;
  return out;
}

torch_value torch_value::object(std::string module, std::string name) {
  auto out = call(std::move(module), std::move(name), {});
  out.kind_ = kind::object;
  return out;
}

torch_value& torch_value::set(torch_value key, torch_value value) {
  items_.push_back(std::move(key));
  items_.push_back(std::move(value));
  return *this;
}

torch_value& torch_value::push(torch_value value) {
  items_.push_back(std::move(value));
  return *this;
}

torch_value& torch_value::set_metadata(torch_value value) {
  metadata_.assign(1, std::move(value));
  return *this;
}

void torch_value::collect_views(std::vector<const torch_view*>& out) const {
  if (kind_ == kind::tensor) out.push_back(&view_);
  for (const auto& item : items_) item.collect_views(out);
  for (const auto& item : metadata_) item.collect_views(out);
}

void torch_value::write_scalar(pickle_writer& out) const {
  std::visit(
      [&](const auto& v) {
        using type = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<type, std::monostate>) out.none();
        if constexpr (std::is_same_v<type, bool>) out.boolean(v);
        if constexpr (std::is_same_v<type, int64_t>) out.integer(v);
        if constexpr (std::is_same_v<type, double>) out.real(v);
        if constexpr (std::is_same_v<type, std::string>) out.text(v);
      },
      scalar_);
}

}  // namespace troupe::formats
