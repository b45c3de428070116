#include "models/host/named_values.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::models {

named_values::named_values(std::vector<entry> all) : all_(std::move(all)) {
  for (auto x = all_.begin(); x != all_.end(); ++x)
    if (x->first.empty() || std::any_of(all_.begin(), x, [&](const entry& other) { return other.first == x->first; }))
      throw std::runtime_error("wanted a unique name for each value, got " + names());
}

const at::Tensor& named_values::operator[](std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &entry::first);
  if (found == all_.end()) throw std::runtime_error("wanted a value '" + std::string(name) + "', got " + names());
  return found->second;
}

const at::Tensor& named_values::only() const {
  if (all_.size() != 1) throw std::runtime_error("wanted one tensor, got the values " + names());
  return all_.front().second;
}

named_values named_values::with(std::string_view name, at::Tensor tensor) const {
  std::vector<entry> all = all_;
  if (const auto found = std::ranges::find(all, name, &entry::first); found != all.end())
    found->second = std::move(tensor);
  else
    all.emplace_back(name, std::move(tensor));
  return named_values(std::move(all));
}

std::string named_values::names() const {
  std::string out;
  for (const auto& [name, tensor] : all_) out += (out.empty() ? "'" : ", '") + name + "'";
  return out.empty() ? "none" : out;
}

}  // namespace troupe::models
