#include "checkpoint/name_pattern.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include "checkpoint/safetensors_header.hpp"

namespace troupe::checkpoint {

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

}  // namespace troupe::checkpoint
