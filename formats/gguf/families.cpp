#include "formats/gguf/families.hpp"

#include <fmt/format.h>

#include <span>

#include "core/number.hpp"
#include "families/all_families.hpp"

namespace troupe::formats {
namespace {

using families::gguf_name;

std::span<const gguf_name> names_of(std::string_view architecture) {
  const auto* const f = families::find_gguf(architecture);
  return f == nullptr ? std::span<const gguf_name>() : f->gguf.names;
}

/// The parts of a tensor name that matched `#` (a block number) and `*` (`weight` or `bias`) of a pattern.
struct match {
  std::string_view number, ending;
};

std::optional<match> matched(std::string_view pattern, std::string_view name) {
  match out;
  while (!pattern.empty()) {
    if (pattern.front() == '#') {
      while (!name.empty() && name.front() >= '0' && name.front() <= '9' && out.number.size() < 9) {
        out.number = {out.number.empty() ? name.data() : out.number.data(), out.number.size() + 1};
        name.remove_prefix(1);
      }
      if (out.number.empty()) return std::nullopt;
    } else if (pattern.front() == '*') {
      if (name != "weight" && name != "bias") return std::nullopt;
      out.ending = name;
      return out;
    } else {
      if (name.empty() || name.front() != pattern.front()) return std::nullopt;
      name.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  return name.empty() ? std::optional(out) : std::nullopt;
}

std::string filled(std::string_view pattern, const match& m) {
  std::string out;
  for (const char c : pattern) {
    if (c == '#')
      out += m.number;
    else if (c == '*')
      out += m.ending;
    else
      out += c;
  }
  return out;
}

std::optional<gguf_place> look_up(std::string_view architecture, std::string_view name,
                                  std::string_view gguf_name::*from, std::string_view gguf_name::*to) {
  for (const auto& p : names_of(architecture)) {
    const auto m = matched(p.*from, name);
    if (!m) continue;
    gguf_place out{filled(p.*to, *m), m->ending == "bias" ? p.bias : p.weight};
    std::string_view number = m->number;
    if (!number.empty()) out.block = core::take_number<uint32_t>(number).value_or(0);
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<gguf_place> gguf_place_of(std::string_view architecture, std::string_view bare_name) {
  return look_up(architecture, bare_name, &gguf_name::ours, &gguf_name::theirs);
}

std::optional<gguf_place> parameter_of(std::string_view architecture, std::string_view gguf_name) {
  return look_up(architecture, gguf_name, &gguf_name::theirs, &gguf_name::ours);
}

std::vector<std::string> certain_gguf_names(const families::family& f, uint32_t blocks) {
  const auto always = [](const families::flag_key& key) { return key.name.empty() && key.usual; };
  const bool has_biases = always(f.keys.attention_bias) && always(f.keys.mlp_bias);
  std::vector<std::string> out;
  for (const gguf_name& row : f.gguf.names) {
    const bool is_of_block = row.theirs.find('#') != row.theirs.npos;
    for (uint32_t b = 0; b < (is_of_block ? blocks : 1); ++b) {
      const std::string number = fmt::to_string(b);
      out.push_back(filled(row.theirs, {number, "weight"}));
      if (has_biases && row.theirs.ends_with('*')) out.push_back(filled(row.theirs, {number, "bias"}));
    }
  }
  return out;
}

}  // namespace troupe::formats
