#include "apps/checkpoint/conversion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/text.hpp"

namespace troupe::apps {

core::result<void> conversion::prepare(const checkpoint::tensor_source& source, output_kind kind,
                                       uint64_t needed_bytes) {
  auto place = output_place::prepare({to_.out, kind, to_.force, needed_bytes}, source);
  if (!place) return core::fail(place.error());
  place_.emplace(std::move(*place));
  return {};
}

core::result<void> conversion::commit(const std::filesystem::path& below) {
  display_.clear();
  return place_->commit(below);
}

void conversion::say(const std::string& written, std::optional<uint64_t> bytes) const {
  if (from_.verbosity == verbosity::quiet) return;
  const double seconds = std::max(display_.seconds(), 1e-9);
  std::string line = fmt::format("{}: {}, {:.1f} s", to_.out, written, seconds);
  if (bytes) line += fmt::format(", {}/s", core::human_bytes(static_cast<double>(*bytes) / seconds));
  std::printf("%s\n", line.c_str());
}

}  // namespace troupe::apps
