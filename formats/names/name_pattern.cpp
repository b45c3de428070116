#include "formats/names/name_pattern.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include <vector>

#include "formats/safetensors/header.hpp"

namespace troupe::formats {

core::result<name_pattern> name_pattern::of(const std::string& text) {
  auto compiled = std::make_shared<const RE2>(text, RE2::Quiet);
  if (!compiled->ok())
    return core::fail(core::error_kind::bad_input,
                      fmt::format("wanted an RE2 pattern, got '{}': {}", shown(text), compiled->error()));
  return name_pattern(std::move(compiled));
}

bool name_pattern::matches(std::string_view name) const {
  return compiled_->Match({name.data(), name.size()}, 0, name.size(), RE2::ANCHOR_START, nullptr, 0);
}

core::result<void> name_pattern::check_rewrite(const std::string& to) const {
  std::string why;
  if (compiled_->CheckRewriteString(to, &why)) return {};
  return core::fail(core::error_kind::bad_input, fmt::format("wanted a name with the groups of '{}', got '{}': {}",
                                                             shown(compiled_->pattern()), shown(to), why));
}

std::optional<std::string> name_pattern::rewritten(std::string_view name, const std::string& to) const {
  std::vector<re2::StringPiece> groups(static_cast<size_t>(RE2::MaxSubmatch(to)) + 1);
  const auto count = static_cast<int>(groups.size());
  if (!compiled_->Match({name.data(), name.size()}, 0, name.size(), RE2::ANCHOR_BOTH, groups.data(), count))
    return std::nullopt;
  std::string out;
  if (!compiled_->Rewrite(&out, to, groups.data(), count)) return std::nullopt;
  return out;
}

}  // namespace troupe::formats
