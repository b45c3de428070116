#include "config/document/name_map_file.hpp"

#include <fmt/format.h>

#include "config/document/document.hpp"
#include "config/document/files.hpp"
#include "core/text.hpp"

namespace troupe::config {
namespace {

const char* kind_of(const node& n) {
  if (n.kind == node_kind::mapping) return "a mapping";
  return n.kind == node_kind::sequence ? "a list" : "a single value";
}

tl::unexpected<core::error> refused(const std::string& where, int line, const std::string& why) {
  return core::fail(error_kind::bad_input, fmt::format("{}: line {}: {}", where, line, why));
}

}  // namespace

core::result<core::name_lines> parse_name_map(std::string_view text, const std::string& where) {
  core::name_lines out{where, {}};
  const auto form = [&](const node& got, int line) {
    return refused(where, line,
                   fmt::format("wanted the mappings 'layers' and 'names' of text to text, got {}", kind_of(got)));
  };
  const auto none =
      core::fail(error_kind::bad_input, fmt::format("{}: it has no rules under 'layers' or 'names'", where));
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return none;
  const document read = read_yaml(text, 0);
  for (const problem& p : read.problems)
    return refused(where, p.at.line, p.key.empty() ? p.text : fmt::format("'{}' is {}", p.key, p.text));
  if (read.root->kind != node_kind::mapping) return form(*read.root, read.root->at.line);
  for (const entry& section : read.root->entries) {
    const bool is_layer = section.name == "layers";
    if (!is_layer && section.name != "names")
      return refused(where, section.at.line,
                     fmt::format("wanted 'layers' or 'names', got '{}'", core::shown(section.name, 60)));
    if (section.value->kind != node_kind::mapping) return form(*section.value, section.at.line);
    for (const entry& e : section.value->entries) {
      if (!e.value->is_scalar() && e.value->kind != node_kind::null) return form(*e.value, e.at.line);
      if (out.lines.size() == core::max_name_lines)
        return refused(where, e.at.line, fmt::format("more than {} rules", core::max_name_lines));
      out.lines.push_back({is_layer, e.name, e.value->text, e.at.line});
    }
  }
  if (out.lines.empty()) return none;
  return out;
}

core::result<core::name_lines> read_name_map(const std::filesystem::path& file) {
  if (file.empty()) return core::name_lines{};
  const auto where = fmt::format("'{}'", file.string());
  const auto text = read_text(file);
  if (!text) return core::fail(error_kind::bad_input, fmt::format("{}: {}", where, text.error()));
  if (text->size() > max_name_map_bytes)
    return core::fail(error_kind::bad_input,
                      fmt::format("{}: wanted at most {} bytes, got {}", where, max_name_map_bytes, text->size()));
  return parse_name_map(*text, where);
}

}  // namespace troupe::config
