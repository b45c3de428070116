#include "data/templates/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::data::templates {

core::result<bound_arguments> bound(std::string_view what, call_arguments arguments,
                                    std::initializer_list<std::string_view> names, size_t required) {
  if (arguments.positional.size() > names.size())
    return core::refused(
        fmt::format("{} takes at most {} arguments, got {}", what, names.size(), arguments.positional.size()));
  std::vector<std::optional<value>> out(names.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) out[i] = std::move(arguments.positional[i]);
  for (auto& [name, x] : arguments.named) {
    const auto* const at = name.empty() ? names.end() : std::find(names.begin(), names.end(), name);
    if (at == names.end()) return core::refused(fmt::format("{} has no argument '{}'", what, core::shown(name)));
    auto& place = out[static_cast<size_t>(at - names.begin())];
    if (place) return core::refused(fmt::format("{} has two values for its argument '{}'", what, core::shown(name)));
    place = std::move(x);
  }
  for (size_t i = 0; i < required; ++i)
    if (!out[i]) return core::refused(fmt::format("{} needs {} argument{}", what, required, required == 1 ? "" : "s"));
  return bound_arguments(std::move(out));
}

core::result<std::string> text_argument(std::string_view what, const value& x) {
  if (const auto* t = x.text()) return *t;
  return core::refused(fmt::format("{} wants a text, got a value of type {}", what, type_name(x)));
}

core::result<int64_t> integer_argument(std::string_view what, const value& x) {
  if (const auto i = integer_of(x)) return *i;
  return core::refused(fmt::format("{} wants an integer, got a value of type {}", what, type_name(x)));
}

}  // namespace troupe::data::templates
