#include "config/document/path_text.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "core/text.hpp"

namespace troupe::config {
namespace {

/// Positions of a variable such as `$NAME` or `${NAME}` in a text: of its `$`, of its name, and of the text after it.
struct variable_place {
  size_t begin = 0, name = 0, name_end = 0, end = 0;
};

bool is_name_character(char c, bool is_first) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return letter || (!is_first && c >= '0' && c <= '9');
}

std::optional<variable_place> next_variable(std::string_view text, size_t from) {
  for (size_t at = text.find('$', from); at != std::string_view::npos; at = text.find('$', at + 1)) {
    const bool braced = at + 1 < text.size() && text[at + 1] == '{';
    variable_place v{at, at + 1 + (braced ? 1 : 0), 0, 0};
    v.name_end = v.name;
    while (v.name_end < text.size() && is_name_character(text[v.name_end], v.name_end == v.name)) ++v.name_end;
    if (v.name_end == v.name || (braced && (v.name_end == text.size() || text[v.name_end] != '}'))) continue;
    v.end = v.name_end + (braced ? 1 : 0);
    return v;
  }
  return std::nullopt;
}

tl::unexpected<std::string> not_read(std::string_view text, const std::string& why) {
  return tl::unexpected(fmt::format("wanted a path, got {}: {}", core::shown(text), why));
}

}  // namespace

tl::expected<std::string, std::string> expanded_path(std::string_view text, const std::filesystem::path& folder) {
  std::string out(text);
  if (out.starts_with('~')) {
    if (out.size() > 1 && out[1] != '/')
      return not_read(
          text, "~USER is not supported; write the full path, or begin with ./~ if the name of the file begins with ~");
    const char* const home = std::getenv("HOME");
    if (home == nullptr || *home != '/')
      return not_read(text, "~ cannot be expanded, because HOME is not set to an absolute path");
    out.replace(0, 1, home);
  }
  for (auto v = next_variable(out, 0); v; v = next_variable(out, v->begin)) {
    const size_t component_end = std::min(out.find('/', v->end), out.size());
    std::error_code e;
    if (std::filesystem::exists(folder / out.substr(0, component_end), e)) {
      v->begin = component_end;
      continue;
    }
    const std::string name = out.substr(v->name, v->name_end - v->name);
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0')
      return not_read(
          text, fmt::format("the environment variable {} is not set, and a file of that name does not exist", name));
    if (next_variable(value, 0))
      return not_read(text, fmt::format("the value of {} contains another variable; set it to a plain path", name));
    out.replace(v->begin, v->end - v->begin, value);
  }
  return out;
}

}  // namespace troupe::config
